"""What browsers are told about pages of other origins."""

import socket
import urllib.parse

import pytest

from chat_client import CHAT, chat

PAGE = "https://chat.example"
STRANGER = "https://evil.example"
ASK = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}


def told(response):
    return {name: value for name, value in response.headers.items()
            if name.startswith("access-control-") or name == "vary"}


def test_nothing_unless_asked_for(server):
    assert told(server.get("/health", headers={"Origin": PAGE})) == {}
    response = server.request("OPTIONS", CHAT, headers={"Origin": PAGE, **ASK})
    assert (response.status, told(response)) == (204, {})
    assert response.headers["allow"] == "POST, OPTIONS"


def test_all_origins(start_server):
    server = start_server("--allowed-origins", '["*"]')
    response = server.request("OPTIONS", "/any/path", headers={"Origin": PAGE, **ASK})
    assert response.status == 204
    assert told(response) == {
        "access-control-allow-origin": "*",
        "access-control-allow-methods": "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT",
        "access-control-allow-headers": ASK["Access-Control-Request-Headers"],
        "access-control-max-age": "600",
    }
    expected = {"access-control-allow-origin": "*", "access-control-expose-headers": "Retry-After, X-Request-Id"}
    assert told(server.get("/health", headers={"Origin": PAGE})) == expected
    streamed = server.post(CHAT, chat("Hi", max_tokens=2, stream=True), headers={"Origin": "null"})
    assert streamed.events()[-1] == "[DONE]" and told(streamed) == expected
    assert told(server.get("/health")) == {}
    odd = server.request("OPTIONS", CHAT, headers={"Origin": PAGE, "Access-Control-Request-Method": "POST",
                                                   "Access-Control-Request-Headers": "a,\tb"})
    assert odd.status == 204 and "accept" in odd.headers["access-control-allow-headers"].lower()
    plain = server.request("OPTIONS", CHAT, headers={"Origin": PAGE})  # no preflight
    assert plain.headers["allow"] == "POST, OPTIONS" and told(plain) == expected


def test_listed_origins_and_keys(start_server):
    server = start_server("--allowed-origins", f'["{PAGE}", "http://localhost:3000"]', "--allow-credentials",
                          "--allowed-methods", '["GET", "POST"]', "--allowed-headers", '["Authorization"]',
                          "--api-key", "x", "--rate-limit", "1")
    listed = {"vary": "Origin", "access-control-allow-origin": PAGE, "access-control-allow-credentials": "true"}
    simple = {**listed, "access-control-expose-headers": "Retry-After, X-Request-Id"}
    response = server.request("OPTIONS", CHAT, headers={"Origin": PAGE, **ASK})
    assert (response.status, response.body) == (204, b"")
    assert told(response) == {
        **listed,
        "access-control-allow-methods": "GET, POST",
        "access-control-allow-headers": "Accept, Accept-Language, Content-Language, Content-Type, Authorization",
        "access-control-max-age": "600",
    }
    for changed, text in (({"Origin": STRANGER}, "Origin: "),
                          ({"Access-Control-Request-Method": "DELETE"}, "Access-Control-Request-Method: "),
                          ({"Access-Control-Request-Headers": "x-other"}, "Access-Control-Request-Headers: ")):
        response = server.request("OPTIONS", CHAT, headers={"Origin": PAGE, **ASK, **changed})
        assert response.status == 400 and response.json()["error"]["message"].startswith(text)
        assert "access-control-allow-methods" not in response.headers
    headers = {"Origin": PAGE, "Authorization": "Bearer x"}
    for status, sent in ((200, headers), (429, headers), (401, {"Origin": PAGE})):
        response = server.get("/v1/models", headers=sent)
        assert (response.status, told(response)) == (status, simple)
    for sent in ({}, {"Origin": STRANGER}, {"Origin": "null"}, {"Origin": PAGE + ".evil"}):
        assert told(server.get("/health", headers=sent)) == {"vary": "Origin"}


def test_answers_before_the_body_have_them_too(start_server):
    server = start_server("--allowed-origins", f'["{PAGE}"]')
    address = urllib.parse.urlsplit(server.base_url)
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        connection.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nOrigin: {PAGE}\r\nContent-Length: 99999999999\r\n\r\n"
                           .encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    assert answer.startswith("HTTP/1.1 413")
    assert f"\r\nAccess-Control-Allow-Origin: {PAGE}\r\n" in answer and "\r\nVary: Origin\r\n" in answer
    assert answer.count("\r\n\r\n") == 1 and answer.endswith("}")


@pytest.mark.parametrize("flags, text", [
    (["--allowed-origins", "*"], "--allowed-origins"),
    (["--allowed-origins", '["chat.example"]'], "--allowed-origins[0]: 'chat.example'"),
    (["--allowed-origins", '["*"]', "--allow-credentials"], "--allow-credentials: not for every origin"),
    (["--allowed-methods", '["GET"]'], "--allowed-methods: needs --allowed-origins"),
    (["--allowed-headers", '["*"]'], "--allowed-headers: needs --allowed-origins"),
    (["--allow-credentials"], "--allow-credentials: needs --allowed-origins"),
], ids=str)
def test_usage(run_quern, tiny, flags, text):
    done = run_quern("serve", tiny, "--port", "0", *flags)
    assert done.returncode == 2
    assert done.stderr.decode().startswith(f"quern: {text}")
