"""So many requests a minute of each key, or of each address; beyond them 429 and when to come again."""

import http.client
import time

import pytest

from chat_client import CHAT, chat, error_of
from crowd import wait_for

HELLO = chat("Hi", max_tokens=1)


def models(server, key=None):
    return server.get("/v1/models", headers={"Authorization": f"Bearer {key}"} if key else {})


def test_each_key_has_its_own(start_server):
    server = start_server("--api-key", "anna", "otto", "--rate-limit", 1, "--rate-limit-burst", 4)  # none comes back here
    assert [models(server, "anna").status for _ in range(3)] == [200] * 3
    assert server.post(CHAT, HELLO, headers={"Authorization": "Bearer anna"}).status == 200
    refused = models(server, "anna")
    assert refused.status == 429
    error = error_of(refused)
    assert (error["type"], error["code"], error["param"]) == ("requests", "rate_limit_exceeded", None)
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert f"again in {refused.headers['retry-after']} s" in error["message"]
    assert server.post(CHAT, HELLO, headers={"x-api-key": "anna"}).status == 429
    assert [models(server, "otto").status for _ in range(5)] == [200] * 4 + [429]
    refused = server.post("/v1/messages", {}, headers={"x-api-key": "anna"})
    assert refused.status == 429 and int(refused.headers["retry-after"]) >= 1
    assert refused.json()["error"]["type"] == "rate_limit_error"
    assert models(server, "nobody").status == 401
    for _ in range(10):  # what is open to everybody counts for nobody
        assert server.get("/health").status == 200


def test_an_address_where_there_are_no_keys_and_the_wait_is_enough(start_server):
    server = start_server("--rate-limit", 60, "--rate-limit-burst", 2)
    assert [models(server, key).status for key in ("any", "other")] == [200, 200]
    while (refused := models(server)).status != 429:
        assert refused.status == 200  # a slow machine's second has passed
    assert refused.headers["retry-after"] == "1"
    time.sleep(1.01)
    assert models(server).status == 200


@pytest.mark.parametrize("flags, text", [
    (["--rate-limit-burst", "2"], "--rate-limit-burst: needs --rate-limit"),
    (["--rate-limit", "-1"], "--rate-limit: -1 is out of range"),
    (["--rate-limit", "1", "--rate-limit-burst", "0"], "--rate-limit-burst: 0 is out of range"),
], ids=str)
def test_usage(run_quern, tiny, flags, text):
    done = run_quern("serve", tiny, "--port", "0", *flags)
    assert done.returncode == 2
    assert text in done.stderr.decode()


def test_connections_of_an_address(start_server):
    server = start_server("--max-connections-per-address", 3)
    kept = [server.connect() for _ in range(3)]
    for connection in kept:
        connection.request("GET", "/health")
        assert connection.getresponse().read()
    with pytest.raises((http.client.HTTPException, OSError)):
        server.get("/health")
    kept.pop().close()
    wait_for(lambda: answers(server))
    for connection in kept:
        connection.request("GET", "/health")
        assert connection.getresponse().read()
        connection.close()
    wait_for(lambda: answers(server))


def answers(server):
    try:
        return server.get("/health").status == 200
    except (http.client.HTTPException, OSError):
        return False
