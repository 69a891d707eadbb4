"""The server as a party to HTTP: methods, broken and hostile requests, slow and vanishing clients."""

import contextlib
import json
import socket
import threading
import time
import urllib.parse

import pytest

from conftest import ROOT, stop_all
from raw_http import head, open_socket, raw, read_all
from server_process import Server

CHAT = "/v1/chat/completions"
HELLO = {"model": "quern-tiny", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}
ENDLESS = {**HELLO, "max_tokens": 8000, "ignore_eos": True, "stream": True}
MEBIBYTE = 1 << 20
PATIENCE_S = 4  # of servers whose slow clients are cut off: longer than a busy machine holds up the others


def post_head(body):
    return head(body, Content_Length=len(body))


def lives(server):
    assert server.get("/health").status == 200


def error_of(response):
    error = json.loads(response.body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error


def test_methods(server):
    response = server.get(CHAT)
    assert response.status == 405
    assert response.headers["allow"] == "POST, OPTIONS"
    error_of(response)
    assert server.request("DELETE", "/health").headers["allow"] == "GET, HEAD, OPTIONS"
    assert server.request("OPTIONS", "/health").status == 204
    response = server.request("HEAD", "/v1/models")
    assert (response.status, response.body) == (200, b"")
    assert int(response.headers["content-length"]) > 2
    for path in ("/", "/v1/nope", "/v1/models/", "/health/x", "/v1/chat/completions/"):
        response = server.get(path)
        assert response.status == 404, path
        error_of(response)
    assert server.get("/health?x=1").status == 200


@pytest.mark.parametrize(("path", "told"), [
    ("/chat/completions", "did you mean /v1/chat/completions?"), ("/v1/health", "did you mean /health?"),
    ("/v1/v1/messages", "did you mean /v1/messages?"), ("/models/x", "did you mean /v1/models/x?"),
    ("/completion", "GET /openapi.json lists those there are"), ("/v1", "GET /openapi.json lists"),
    ("/", "GET /openapi.json lists"), ("/models/" + "x" * 5000, "GET /openapi.json lists"),
    ("/models/%ff", "did you mean /v1/models/"),
])
def test_a_path_of_no_endpoint_is_told_what_was_meant(server, path, told):
    response = server.post(path, {})
    assert response.status == 404
    assert told in json.loads(response.body)["error"]["message"]


def test_connection_is_kept(server):
    connection = server.connect()
    for body in (HELLO, {"messages": []}, HELLO):
        connection.request("POST", CHAT, json.dumps(body).encode())
        response = connection.getresponse()
        assert response.status == (200 if body is HELLO else 400)
        response.read()
    connection.request("POST", CHAT, json.dumps({**HELLO, "stream": True}).encode())
    response = connection.getresponse()
    assert response.read().endswith(b"data: [DONE]\n\n")
    connection.request("GET", "/health")
    assert connection.getresponse().status == 200
    connection.close()


def test_chunked_bodies_and_http_1_0(server):
    connection = server.connect()
    body = json.dumps(HELLO).encode()
    connection.request("POST", CHAT, iter([body[:10], body[10:]]), encode_chunked=True,
                       headers={"Transfer-Encoding": "chunked"})
    assert connection.getresponse().status == 200
    connection.close()
    answer = raw(server, b"POST %s HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s" % (CHAT.encode(), len(body), body))
    assert answer.startswith(b"HTTP/1.0 200") or answer.startswith(b"HTTP/1.1 200")


POST_HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
GET_HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n"
MALFORMED = {
    "empty": b"\r\n\r\n",
    "binary": b"\x00\xff\xfe" * 100 + b"\r\n\r\n",
    "no path": b"GET\r\n\r\n",
    "version": b"GET /health HTTP/9.9\r\n\r\n",
    "negative length": POST_HEAD + b"Content-Length: -5\r\n\r\n{}",
    "huge length": POST_HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n{}",
    "length in words": POST_HEAD + b"Content-Length: nine\r\n\r\n{}",
    "bad chunk": POST_HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "huge chunk": POST_HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}",
    "long path": b"GET /" + b"a" * 200000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "long header": GET_HEALTH + b"X: " + b"a" * 200000 + b"\r\n\r\n",
    "many headers": GET_HEALTH + b"X: y\r\n" * 20000 + b"\r\n",
    "no colon": GET_HEALTH + b"no colon here\r\n\r\n",
    "short body": POST_HEAD + b"Content-Length: 50\r\n\r\n{}",
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_http(server, data):
    answer = raw(server, data, hang_up=True)
    assert answer == b"" or answer[:10] in (b"HTTP/1.1 4", b"HTTP/1.0 4", b"HTTP/1.1 5"), answer[:200]
    lives(server)


MALFORMED_BODIES = {
    "empty": b"",
    "open": b"{",
    "array": b"[]",
    "null": b"null",
    "number": b"7",
    "string": b'"x"',
    "NUL": b"\x00",
    "UTF-16": b"\xff\xfe",
    "cut UTF-8": b'{"model":"\xc3"}',
    "deep array": b"[" * 100000,
    "deep object": b'{"a":' * 50000 + b"1" + b"}" * 50000,
    "a million values": b'{"messages":[' + b"0," * 1500000 + b"0]}",
    "same key twice": b'{"model":1,"model":2}',
    "lone surrogate": b'{"messages":[{"role":"user","content":"\\ud800"}]}',
    "real overflow": b'{"max_tokens":1e999}',
    "two values": b"{}{}",
    "integer overflow": b'{"seed":123456789012345678901234567890}',
}


@pytest.mark.parametrize("body", MALFORMED_BODIES.values(), ids=MALFORMED_BODIES.keys())
def test_malformed_bodies(server, body):
    response = server.post(CHAT, body)
    assert response.status == 400
    assert error_of(response)["type"] == "invalid_request_error"


def test_messages_of_odd_characters(server):
    for text in ("\x00", "\u202e\ufeff", "\U0010ffff", "\ufffd", "é" * 300, ""):
        response = server.post(CHAT, {**HELLO, "messages": [{"role": "user", "content": text}]})
        assert response.status == 200, (text, response.body)


def test_error_text_is_escaped(server):
    response = server.post(CHAT, {**HELLO, "model": 'x"\n\x1b[31m\u2028'})
    assert response.status == 404
    assert "\x1b" not in error_of(response)["message"]


@pytest.mark.parametrize("framing", [b"Content-Length: 3\r\nTransfer-Encoding: chunked", b"Content-Length : 3",
                                     b"Content-Length: 3\r\nContent-Length: 4", b"Transfer-Encoding: gzip", b"X: y"])
def test_a_body_whose_end_is_unclear_is_refused_and_the_connection_closed(server, framing):
    answer = raw(server, b"POST %s HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n{}GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
                 % (CHAT.encode(), framing), hang_up=True)
    assert answer.startswith(b"HTTP/1.1 400 ") and answer.count(b"HTTP/1.1 ") == 1
    assert b"its end is not told in one way" in answer
    lives(server)


def test_announced_body_is_refused_at_once(server):
    with open_socket(server) as connection:
        connection.sendall(head(Content_Length=200 * MEBIBYTE))
        answer = connection.recv(65536)  # before one byte of the body
        assert answer.startswith(b"HTTP/1.1 413")
        assert b"Connection: close" in answer


def test_body_is_refused_when_it_passes_the_limit(server):
    """A chunked one, whose size nobody told."""
    piece = b"%x\r\n" % MEBIBYTE + b" " * MEBIBYTE + b"\r\n"
    answers = []
    with open_socket(server) as connection:
        connection.sendall(head(Transfer_Encoding="chunked"))
        reader = threading.Thread(target=lambda: answers.append(connection.recv(65536)))
        reader.start()
        sent = 0
        while not answers and sent < 400:
            connection.sendall(piece)
            sent += 1
        reader.join()
    assert answers[0].startswith(b"HTTP/1.1 413"), answers[0][:100]
    assert 63 <= sent < 400
    lives(server)


def test_client_that_sends_all_first_reads_its_413(server):
    body = b" " * (200 * MEBIBYTE)
    connection = server.connect()
    connection.request("POST", CHAT, body)
    response = connection.getresponse()
    assert response.status == 413
    assert json.loads(response.read())["error"]["message"].startswith("body: larger than")
    connection.close()


def test_expect_continue(server):
    body = json.dumps(HELLO).encode()
    with open_socket(server) as connection:
        connection.sendall(head(Content_Length=len(body), Expect="100-continue", Connection="close"))
        assert connection.recv(65536).startswith(b"HTTP/1.1 100")
        connection.sendall(body)
        assert read_all(connection).startswith(b"HTTP/1.1 200")


def test_too_long_prompt(server):
    response = server.post(CHAT, {**HELLO, "messages": [{"role": "user", "content": "word " * 20000}]})
    assert response.status == 400
    assert error_of(response)["code"] == "context_length_exceeded"
    assert error_of(response)["param"] == "messages"
    for field in ("max_tokens", "max_completion_tokens"):
        response = server.post(CHAT, {"messages": HELLO["messages"], field: 1 << 40})
        assert response.status == 400
        assert error_of(response)["code"] == "context_length_exceeded"
        assert error_of(response)["param"] == field
        assert error_of(response)["message"].startswith(f"{field}: ")


def first_event(response):
    """Reads on to the first text of a stream."""
    while True:
        line = response.readline()
        assert line, "the stream ended early"
        if line.startswith(b"data: ") and b'"reasoning"' in line or b'"content":"' in line and b'"role"' not in line:
            return


def start_endless(server, **fields):
    connection = server.connect()
    connection.request("POST", CHAT, json.dumps({**ENDLESS, **fields}).encode())
    response = connection.getresponse()
    assert response.status == 200
    first_event(response)
    return connection, response


def seconds_of_endless(timings):
    return ENDLESS["max_tokens"] / timings["predicted_per_second"]


def rate_probe(server):
    response = server.post(CHAT, {**HELLO, "max_tokens": 64, "ignore_eos": True})
    return response.json()["timings"]


@pytest.fixture(scope="module")
def one_seat(quern_bin, tiny):
    """A server that computes one answer at a time, so that one which goes on holds up all others."""
    server = Server(quern_bin, tiny, ("--max-num-seqs", "1"), None, ROOT)
    server.wait_until_ready()
    yield server
    stop_all([server])


def test_hanging_up_while_reading_cancels(one_seat):
    for _ in range(3):
        connection, response = start_endless(one_seat)
        response.close()
        connection.close()
        timings = rate_probe(one_seat)
        assert timings["queue_ms"] / 1000 < seconds_of_endless(timings) / 4


def test_hanging_up_before_the_answer_cancels(one_seat):
    """Not a stream: the client waits for the whole, and goes."""
    with open_socket(one_seat) as connection:
        connection.sendall(post_head(json.dumps({**ENDLESS, "stream": False}).encode()))
    timings = rate_probe(one_seat)
    assert timings["queue_ms"] / 1000 < seconds_of_endless(timings) / 4


def test_hanging_up_while_waiting_cancels(one_seat):
    running, response = start_endless(one_seat)
    for _ in range(8):
        with open_socket(one_seat) as connection:
            connection.sendall(post_head(json.dumps({**ENDLESS, "stream": False}).encode()))
    response.close()
    running.close()
    timings = rate_probe(one_seat)
    assert timings["queue_ms"] / 1000 < seconds_of_endless(timings) / 2


def start_waiting(server):
    """A streamed request behind a running one: its role comes as soon as it has its place in the queue."""
    connection = server.connect()
    connection.request("POST", CHAT, json.dumps({**HELLO, "stream": True}).encode())
    response = connection.getresponse()
    assert b'"role"' in response.readline()
    return connection, response


def test_full_queue_is_told(start_server):
    server = start_server("--max-queue", "1", "--max-num-seqs", "1")
    running, endless = start_endless(server)
    waiting, response = start_waiting(server)
    refused = server.post(CHAT, HELLO)
    assert refused.status == 503
    assert refused.headers["retry-after"] == "1"
    assert error_of(refused)["code"] == "overloaded"
    lives(server)
    endless.close()
    running.close()
    assert response.read().endswith(b"data: [DONE]\n\n")
    waiting.close()
    assert server.post(CHAT, HELLO).status == 200


def test_hanging_up_frees_a_place_in_the_queue(start_server):
    server = start_server("--max-queue", "1", "--max-num-seqs", "1")
    running, endless = start_endless(server)
    for _ in range(5):
        waiting, response = start_waiting_when_there_is_room(server)
        response.close()
        waiting.close()
    endless.close()
    running.close()


def start_waiting_when_there_is_room(server, tries=2000):
    for _ in range(tries):
        connection = server.connect()
        connection.request("POST", CHAT, json.dumps({**HELLO, "stream": True}).encode())
        response = connection.getresponse()
        if response.status == 200:
            return connection, response
        connection.close()
    raise AssertionError("the place was never freed")


def test_slow_clients_are_cut_off(start_server):
    server = start_server("--http-timeout", PATIENCE_S)
    slow = (b"", b"GET /health HTTP/1.1\r\nHost", head(b"{", Content_Length=1000))
    with contextlib.ExitStack() as opened:
        connections = [opened.enter_context(open_socket(server)) for _ in slow]
        for connection, data in zip(connections, slow):
            connection.sendall(data)
        for connection, data in zip(connections, slow):
            assert read_all(connection) == b"", data
    lives(server)


def test_a_byte_at_a_time_is_cut_off(start_server):
    server = start_server("--http-timeout", PATIENCE_S)
    with open_socket(server) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nX: ")
        connection.settimeout(0.05)
        for _ in range(2000):
            try:
                connection.sendall(b"x")
                assert connection.recv(1000) == b""
                break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        else:
            raise AssertionError("held for 100 s")
    lives(server)


def test_keep_alive_connections_outlive_long_answers(start_server):
    """The time that a request takes is not the client's."""
    server = start_server("--http-timeout", PATIENCE_S)
    connection = server.connect()
    began = time.monotonic()
    while time.monotonic() - began < 2 * PATIENCE_S:
        connection.request("POST", CHAT, json.dumps({**ENDLESS, "stream": False, "max_tokens": 300}).encode())
        response = connection.getresponse()
        assert response.status == 200
        assert response.read()
    connection.close()


def open_small_socket(server):
    """A connection whose own end takes in little of what it does not read."""
    address = urllib.parse.urlsplit(server.base_url)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect((address.hostname, address.port))
    return connection


def test_client_that_never_reads_is_cut_off(start_server):
    server = start_server("--http-timeout", PATIENCE_S)
    requests = 20000  # some megabytes of answers
    with open_small_socket(server) as stalled:
        stalled.settimeout(120)
        with pytest.raises(OSError):
            for _ in range(100 * requests):
                stalled.sendall(head(path="/v1/models", method="GET"))
        assert read_all(stalled).count(b"HTTP/1.1 200") < requests
    lives(server)


def test_stalled_reader_does_not_hold_the_engine(start_server):
    server = start_server("--http-timeout", PATIENCE_S)
    with open_small_socket(server) as stalled:
        stalled.sendall(post_head(json.dumps({**ENDLESS, "max_tokens": 2000}).encode()))
        assert server.post(CHAT, HELLO).status == 200  # once the first is done or cut off
    lives(server)


def test_many_idle_connections(server):
    idle = [open_socket(server) for _ in range(200)]
    lives(server)
    for connection in idle:
        connection.close()


def peak_bytes(server):
    """The largest resident set that the server's process ever had."""
    for line in open(f"/proc/{server.process.pid}/status", encoding="ascii"):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmHWM")


def test_parallel_bodies_of_many_values_share_memory(start_server):
    """Each tree takes 70 MiB: all at once 1.6 GiB. The bound leaves room for a sanitizer's own memory."""
    server = start_server()
    before = peak_bytes(server)
    body = b'{"messages":[' + b"{}," * 300_000 + b"0]}"
    codes = []
    threads = [threading.Thread(target=lambda: codes.append(server.post(CHAT, body).status)) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [400] * len(threads)
    assert peak_bytes(server) - before < 1024 * MEBIBYTE
    lives(server)


def test_pipelined_requests(server):
    body = json.dumps(HELLO).encode()
    one = post_head(body)
    health = head(path="/health", method="GET")
    answer = raw(server, one + health + head(path="/health", method="GET", Connection="close"))
    assert answer.count(b"HTTP/1.1 200") == 3


def test_engine_failure_is_500_and_the_server_lives(start_server, broken_model):
    server = start_server(model=broken_model)
    response = server.post(CHAT, {**HELLO, "model": "broken"})
    assert response.status == 500
    error = error_of(response)
    assert error["type"] == "server_error"
    response = server.post(CHAT, {**HELLO, "model": "broken", "stream": True})
    assert response.status == 200
    events = response.events()
    assert events[-1] == "[DONE]"
    assert json.loads(events[-2])["error"]["type"] == "server_error"
    lives(server)


@pytest.fixture
def broken_model(tiny, tmp_path):
    """The shipped model with an infinity in a weight, which the forward pass meets."""
    folder = tmp_path / "broken"
    folder.mkdir()
    for path in tiny.iterdir():
        if path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())
    data = bytearray((folder / "model.safetensors").read_bytes())
    size = int.from_bytes(data[:8], "little")
    tensors = json.loads(data[8:8 + size])
    name = next(name for name in tensors if name.endswith("layers.3.self_attn.o_proj.weight"))
    start, end = tensors[name]["data_offsets"]
    start, end = start + 8 + size, end + 8 + size
    infinity = {"BF16": b"\x80\x7f", "F32": b"\x00\x00\x80\x7f"}[tensors[name]["dtype"]]
    data[start:end] = infinity * ((end - start) // len(infinity))
    (folder / "model.safetensors").write_bytes(data)
    return folder
