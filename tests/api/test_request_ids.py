"""X-Request-Id: taken from the client or drawn, told with every answer."""

import json

import pytest

from chat_client import CHAT, chat, error_of

HEADER = "x-request-id"


def ask(server, headers=None, **fields):
    return server.post(CHAT, chat(max_tokens=2, **fields), headers=headers)


def test_a_clients_id_comes_back_and_names_the_answer(server):
    response = ask(server, {"X-Request-Id": "trace:7/a-b.c"})
    assert response.headers[HEADER] == "trace:7/a-b.c"
    assert response.json()["id"] == "chatcmpl-trace:7/a-b.c"
    streamed = ask(server, {"X-Request-Id": "s1"}, stream=True)
    assert streamed.headers[HEADER] == "s1"
    assert {json.loads(event)["id"] for event in streamed.events()[:-1]} == {"chatcmpl-s1"}


def test_drawn_ids_differ(server):
    first, second = ask(server), ask(server)
    assert first.headers[HEADER] != second.headers[HEADER]
    assert first.json()["id"] == "chatcmpl-" + first.headers[HEADER]


@pytest.mark.parametrize("bad", ["", "a b", "x" * 129, 'a"b', "a\\b", "caf\u00e9"])
def test_what_is_no_id_is_replaced(server, bad):
    given = ask(server, {"X-Request-Id": bad.encode("latin-1")}).headers[HEADER]
    assert given != bad and len(given) == 32


def test_the_field_names_it_too_and_the_header_wins(server):
    response = ask(server, request_id="field-1")
    assert (response.headers[HEADER], response.json()["id"]) == ("field-1", "chatcmpl-field-1")
    assert ask(server, {"X-Request-Id": "h"}, request_id="f").headers[HEADER] == "h"
    for bad in ("", "a b", "x" * 129, 5):
        refused = ask(server, request_id=bad)
        assert refused.status == 400 and error_of(refused)["param"] == "request_id", bad


def test_errors_have_one(server):
    headers = {"X-Request-Id": "e1"}
    for response in (server.post(CHAT, b"{oops", headers=headers), server.get("/nope", headers=headers),
                     server.get(CHAT, headers=headers), server.get("/health", headers=headers),
                     server.post(CHAT, b" " * (65 << 20), headers=headers)):
        assert response.headers[HEADER] == "e1", response.status
