"""HTTPS, with certificates that openssl makes for the tests."""

import contextlib
import http.client
import json
import re
import socket
import ssl
import subprocess
import time
import urllib.parse

import pytest

from chat_client import CHAT, chat, error_of
from conftest import ROOT, stop_all
from crowd import load, metrics, wait_for
from server_process import Response, Server

HELLO = chat("Hi", max_tokens=4)
ENDLESS = chat("Hi", max_tokens=8000, ignore_eos=True)


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


class Authority:
    """Signs certificates, in files of `folder`."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.certificate, self.key = folder / f"{name}.pem", folder / f"{name}.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 2,
                "-subj", f"/CN={name}", "-keyout", self.key, "-out", self.certificate)

    def sign(self, name, purpose, days=2):
        """The files of a certificate for 127.0.0.1 and of its key."""
        certificate, key, asked, extensions = (self.folder / f"{self.name}-{name}.{end}"
                                               for end in ("pem", "key", "csr", "ext"))
        extensions.write_text(f"subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage={purpose}\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                "-keyout", key, "-out", asked)
        openssl("x509", "-req", "-in", asked, "-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial",
                "-days", days, "-extfile", extensions, "-out", certificate)
        key.chmod(0o600)
        return certificate, key


@pytest.fixture(scope="session", name="authority")
def authority_fixture(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"), "authority")


@pytest.fixture(scope="session", name="pair")
def pair_fixture(authority):
    """The server's certificate and its key."""
    return authority.sign("server", "serverAuth")


def client_context(authority, certificate=None, key=None):
    context = ssl.create_default_context(cafile=authority.certificate)
    if certificate is not None:
        context.load_cert_chain(certificate, key)
    return context


class SecureServer:
    """A Server that is spoken to by TLS."""

    def __init__(self, server, context):
        self.server, self.context = server, context

    @property
    def address(self):
        url = urllib.parse.urlsplit(self.server.base_url)
        assert url.scheme == "https"
        return url.hostname, url.port

    def open(self, timeout=120):
        return self.context.wrap_socket(socket.create_connection(self.address, timeout=timeout),
                                        server_hostname=self.address[0])

    def connect(self, timeout=120):
        return http.client.HTTPSConnection(*self.address, timeout=timeout, context=self.context)

    def request(self, method, path, body=None, headers=None):
        connection = self.connect()
        try:
            connection.request(method, path, json.dumps(body).encode() if isinstance(body, dict) else body,
                               headers or {})
            answer = connection.getresponse()
            return Response(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, body, **options):
        return self.request("POST", path, body, **options)


@pytest.fixture(scope="module", name="secure")
def secure_fixture(quern_bin, tiny, authority, pair):
    """One server for all tests that leave it as they found it."""
    server = Server(quern_bin, tiny, ("--ssl-certfile", pair[0], "--ssl-keyfile", pair[1]), None, ROOT)
    server.wait_until_ready()
    assert re.fullmatch(r"https://127\.0\.0\.1:\d+", server.base_url)
    assert "chmod" not in server.stderr_text() and "expired" not in server.stderr_text()
    yield SecureServer(server, client_context(authority))
    stop_all([server])


def test_answers_and_streams(secure):
    assert secure.get("/health").json() == {"status": "ok"}
    whole = secure.post(CHAT, {**HELLO, "temperature": 0}).json()["choices"][0]["message"]["content"]
    events = secure.post(CHAT, {**HELLO, "temperature": 0, "stream": True}).events()
    assert events[-1] == "[DONE]"
    deltas = [json.loads(event)["choices"][0]["delta"] for event in events[:-1]]
    assert "".join(delta.get("content") or "" for delta in deltas) == (whole or "")


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_versions(secure):
    assert secure.open().version() == "TLSv1.3"
    secure.context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert secure.open().version() == "TLSv1.2"
    secure.context.maximum_version = ssl.TLSVersion.MAXIMUM_SUPPORTED
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises(ssl.SSLError), socket.create_connection(secure.address) as plain:
        old.wrap_socket(plain)


def test_a_client_that_does_not_know_the_authority_refuses(secure):
    with pytest.raises(ssl.SSLCertVerificationError), socket.create_connection(secure.address) as plain:
        ssl.create_default_context().wrap_socket(plain, server_hostname="127.0.0.1")
    assert secure.get("/health").status == 200


def test_plain_http_is_no_tls(secure):
    with socket.create_connection(secure.address, timeout=60) as plain:
        plain.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"HTTP/" not in plain.recv(1000)
    assert secure.get("/health").status == 200


def test_large_bodies_and_pipelined_requests(secure):
    assert error_of(secure.post(CHAT, b"[" + b" " * (20 << 20) + b"]"))["param"] is None
    body = json.dumps(HELLO).encode()
    post = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    get = b"GET /health HTTP/1.1\r\nHost: x\r\n"
    with secure.open() as connection:
        connection.sendall(post + get + b"\r\n" + get + b"Connection: close\r\n\r\n")
        assert read_all(connection).count(b"HTTP/1.1 200") == 3


def read_all(connection):
    pieces = []
    while piece := connection.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)


@pytest.mark.parametrize("framing, status", [
    (b"Content-Length: 99999999999", b"413"),
    (b"Content-Length: 3\r\nTransfer-Encoding: chunked", b"400"),
])
def test_answers_before_the_body(secure, framing, status):
    """These go past the HTTP library, and through TLS all the same; close_notify comes behind them."""
    with secure.open() as connection:
        connection.sendall(b"POST " + CHAT.encode() + b" HTTP/1.1\r\nHost: x\r\n" + framing + b"\r\n\r\n")
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"].startswith("body: ")


def aborted(secure):
    return metrics(secure).get(("vllm:request_success_total", 'finished_reason="abort"'), 0)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("farewell", ["close", "reset", "close_notify"])
@pytest.mark.parametrize("stream", [False, True])
def test_clients_that_go_end_their_requests(secure, stream, farewell, version):
    before = aborted(secure)
    secure.context.maximum_version = version
    body = json.dumps({**ENDLESS, "stream": stream}).encode()
    connection = secure.open()
    secure.context.maximum_version = ssl.TLSVersion.MAXIMUM_SUPPORTED
    connection.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    wait_for(lambda: load(secure) == (1, 0))
    if farewell == "close_notify":
        connection.setblocking(False)
        try:
            connection.unwrap()  # sends ours, and does not wait for the server's
        except (ssl.SSLWantReadError, ssl.SSLError, OSError):
            pass
    elif farewell == "reset":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()
    else:
        connection.close()
    wait_for(lambda: load(secure) == (0, 0))
    assert aborted(secure) == before + 1
    connection.close()


def read_until_closed(connection):
    connection.settimeout(60)
    try:
        while connection.recv(1000):
            pass
    except (ConnectionError, ssl.SSLError):
        pass


def test_slow_clients_are_closed(start_server, authority, pair):
    """In the handshake, in the head, in the body, and idle; a byte now and then does not help."""
    patience_s = 6  # more than a busy machine takes for the handshakes
    secure = SecureServer(start_server("--ssl-certfile", pair[0], "--ssl-keyfile", pair[1],
                                       "--http-timeout", patience_s), client_context(authority))
    with socket.create_connection(secure.address) as silent, socket.create_connection(secure.address) as half, \
            secure.open() as slow_head, secure.open() as slow_body, secure.open() as idle:
        half.sendall(b"\x16\x03\x01\x02\x00\x01")
        slow_head.sendall(b"GET /health HTTP/1.1\r\n")
        slow_body.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n".encode())
        idle.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        with contextlib.suppress(OSError):  # closed before the last byte, where this test was held up
            for _ in range(patience_s * 4):
                time.sleep(0.2)
                half.sendall(b"\0")
                slow_head.sendall(b"X")
                slow_body.sendall(b"x")
        for connection in (silent, half, slow_head, slow_body, idle):
            read_until_closed(connection)  # a time-out otherwise
    assert secure.get("/health").status == 200


def test_draining_under_tls(start_server, authority, pair):
    secure = SecureServer(start_server("--ssl-certfile", pair[0], "--ssl-keyfile", pair[1]), client_context(authority))
    connection = secure.connect()
    connection.request("POST", CHAT, json.dumps({**HELLO, "max_tokens": 200, "ignore_eos": True, "stream": True}))
    response = connection.getresponse()
    assert b'"role"' in response.readline()
    assert secure.server.stop() is None
    assert response.read().endswith(b"data: [DONE]\n\n")


def test_key_and_certificate_in_one_file(start_server, authority, pair, tmp_path):
    both = tmp_path / "both.pem"
    both.write_bytes(pair[1].read_bytes() + pair[0].read_bytes())
    both.chmod(0o640)
    server = start_server("--ssl-certfile", both)
    assert f"quern: {both}: others on this machine may read this key" in server.stderr_text()
    assert SecureServer(server, client_context(authority)).get("/health").status == 200


def test_rsa_keys(start_server, tmp_path):
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", 2, "-subj", "/CN=x", "-addext",
            "subjectAltName=IP:127.0.0.1", "-keyout", tmp_path / "key", "-out", tmp_path / "certificate")
    server = start_server("--ssl-certfile", tmp_path / "certificate", "--ssl-keyfile", tmp_path / "key")
    context = ssl.create_default_context(cafile=tmp_path / "certificate")
    assert SecureServer(server, context).get("/health").status == 200


@pytest.mark.parametrize("needed", [1, 2])
def test_clients_with_certificates(start_server, authority, pair, tmp_path, needed):
    known = Authority(tmp_path, "clients")
    server = start_server("--ssl-certfile", pair[0], "--ssl-keyfile", pair[1], "--ssl-ca-certs", known.certificate,
                          "--ssl-cert-reqs", needed)

    def status(*client):
        secure = SecureServer(server, client_context(authority, *client))
        response = secure.get("/health")
        assert response.status == 200 or error_of(response)["code"] == "certificate_required"
        return response.status

    assert status(*known.sign("anna", "clientAuth")) == 200
    assert status() == (200 if needed == 1 else 403)
    assert status(*authority.sign("stranger", "clientAuth")) == 403
    assert status(*known.sign("a-server", "serverAuth")) == 403
    secure = SecureServer(server, client_context(authority))
    assert secure.post(CHAT, HELLO).status == (200 if needed == 1 else 403)


def test_bad_files_are_told_before_the_model_is_read(run_quern, tiny, authority, pair, tmp_path):
    certificate, key = pair
    other = authority.sign("other", "serverAuth")[1]
    (tmp_path / "text").write_text("no PEM\n")
    (tmp_path / "empty").write_text("")
    (tmp_path / "cut").write_bytes(certificate.read_bytes()[:300])
    openssl("ec", "-in", key, "-aes128", "-passout", "pass:x", "-out", tmp_path / "locked")
    openssl("pkcs8", "-topk8", "-in", key, "-passout", "pass:x", "-out", tmp_path / "locked8")
    for files, code, text in (
            ((tmp_path / "missing", key), 3, "missing: no such file"),
            ((certificate, tmp_path / "missing"), 3, "missing: no such file"),
            ((tmp_path, key), 3, "is a folder"),
            ((tmp_path / "text", key), 3, "text: no certificate in PEM can be read"),
            ((tmp_path / "empty", key), 3, "empty: no certificate in PEM can be read"),
            ((tmp_path / "cut", key), 3, "cut: no certificate in PEM can be read"),
            ((key, key), 3, "no certificate in PEM can be read"),
            ((certificate, tmp_path / "text"), 3, "text: no private key in PEM can be read"),
            ((certificate, certificate), 3, "no private key in PEM can be read"),
            ((certificate, None), 3, "no private key in PEM can be read"),
            ((certificate, tmp_path / "locked"), 3, "locked: the key is encrypted"),
            ((certificate, tmp_path / "locked8"), 3, "locked8: the key is encrypted"),
            ((certificate, other), 3, "not the key to the first certificate of"),
            ((None, key), 2, "--ssl-keyfile: needs --ssl-certfile"),
            ((certificate, key, "--ssl-cert-reqs", "2"), 2, "--ssl-cert-reqs: needs --ssl-ca-certs"),
            ((certificate, key, "--ssl-ca-certs", certificate), 2, "--ssl-ca-certs: no client is asked"),
            ((certificate, key, "--ssl-ca-certs", tmp_path / "text", "--ssl-cert-reqs", "1"), 3, "text: no certificate"),
            ((None, None, "--ssl-cert-reqs", "2"), 2, "--ssl-cert-reqs: needs --ssl-certfile"),
            ((None, None, "--ssl-ca-certs", certificate), 2, "--ssl-ca-certs: needs --ssl-certfile"),
    ):
        flags = list(files[2:])
        flags += ["--ssl-certfile", files[0]] if files[0] is not None else []
        flags += ["--ssl-keyfile", files[1]] if files[1] is not None else []
        done = run_quern("serve", tiny, "--port", "0", *flags)
        said = done.stderr.decode()
        assert done.returncode == code, (flags, said)
        assert said.startswith("quern: ") and text in said and said.count("\n") == 1, (text, said)
        assert "PRIVATE" not in said


def test_expired_certificates_are_told(start_server, authority):
    certificate, key = authority.sign("late", "serverAuth", days=-1)
    server = start_server("--ssl-certfile", certificate, "--ssl-keyfile", key)
    assert f"quern: {certificate}: the certificate has expired: clients will refuse it" in server.stderr_text()
