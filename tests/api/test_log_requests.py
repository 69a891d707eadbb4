"""What the log says of requests: nothing, unless it is asked to; then what docs/api.md tells."""

import json
import re

import pytest

from chat_client import CHAT, answer, chat, open_stream
from crowd import load, wait_for
from raw_http import raw

SECRET = "xyzzy-Plugh-4711"
PATHS = (CHAT, "/v1/completions", "/v1/messages", "/v1/messages/count_tokens", "/tokenize", "/detokenize",
         "/v1/responses", f"/v1/models/{SECRET}", f"/{SECRET}")


def bodies():
    """Requests that have the secret in every place, most of which are refused."""
    fine = chat(f"Say {SECRET}.", max_tokens=8)
    yield fine
    yield {**fine, "stream": True}
    yield {**fine, "temperature": 0, "stop": [SECRET], "user": SECRET, "metadata": {SECRET: SECRET}}
    yield {**fine, "messages": [{"role": "system", "content": SECRET}, *fine["messages"]]}
    yield {**fine, "prompt": SECRET, "system": SECRET, "input": SECRET, "text": SECRET}
    yield {**fine, "prompt": SECRET, "messages": None}
    yield {**fine, "unknown_field": SECRET}
    yield {**fine, "model": SECRET}
    yield {**fine, "max_tokens": SECRET}
    yield {**fine, "max_tokens": 10 ** 9}
    yield {**fine, "seed": SECRET}
    yield {**fine, "cache_salt": SECRET}
    yield {**fine, "response_format": {"type": SECRET}}
    yield {**fine, "tools": [{"type": "function", "function": {"name": SECRET, "description": SECRET}}]}
    yield {**fine, "chat_template_kwargs": {"clear_thinking": SECRET}}
    yield {**fine, "messages": [{"role": SECRET, "content": SECRET}]}
    yield {**fine, "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": SECRET}}]}]}
    yield {**fine, "messages": [{"role": "user", "content": SECRET * 2000}]}
    yield SECRET
    yield [SECRET]
    yield json.dumps(fine)[:-1].encode()
    yield json.dumps({SECRET: 1}).encode()[:-1]
    yield SECRET.encode()
    yield b'{"messages": "' + SECRET.encode() + b'\xff"}'


@pytest.mark.parametrize("flags", [(), ("--api-key", "key-Of-Nobody", "--rate-limit", 1000000)], ids=["open", "keys"])
def test_nothing_of_what_clients_send_is_kept(start_server, flags):
    server = start_server(*flags)
    headers = {"X-Other": SECRET, "Cookie": SECRET, "User-Agent": SECRET, "Origin": f"https://{SECRET}"}
    statuses = set()
    for path in PATHS[:2] if flags else PATHS:
        for body in bodies():
            if isinstance(body, str):
                body = json.dumps(body).encode()
            for authorization in (f"Bearer {SECRET}", "Bearer key-Of-Nobody")[0 if flags else 1:]:
                sent = {**headers, "Authorization": authorization}
                statuses.add(server.post(f"{path}?key={SECRET}", body, headers=sent).status)
    assert {200, 400, 404} <= statuses and all(status < 500 for status in statuses)
    connection, response = open_stream_with(server, {**chat(SECRET), "max_tokens": 4000, "ignore_eos": True})
    response.close()
    connection.close()
    wait_for(lambda: load(server) == (0, 0))
    raw(server, f"{SECRET} / HTTP/1.1\r\n\r\n".encode())
    raw(server, f"GET /{SECRET} HTTP/9\r\n{SECRET}\r\n\r\n".encode())
    metrics = server.get("/metrics").body.decode()
    assert server.stop() is None
    for kept in (metrics, server.stderr_text()):
        assert SECRET not in kept and "Plugh" not in kept
        assert "key-Of-Nobody" not in kept


def open_stream_with(server, body):
    connection = server.connect()
    connection.request("POST", CHAT, json.dumps({**body, "stream": True}).encode(),
                       {"Authorization": "Bearer key-Of-Nobody"})
    response = connection.getresponse()
    assert response.status == 200
    response.readline()
    return connection, response


def lines_of(server, identity):
    """Of the log about this request; they are there soon after its answer."""
    return [line for line in server.stderr if line.startswith(f"quern: request {identity}: ")]


def ask(server, identity, body):
    return server.post(CHAT, body, headers={"X-Request-Id": identity})


def test_lines(start_server):
    server = start_server("--log-requests")
    body = chat(f'Say "{SECRET}"\n.', max_tokens=8, ignore_eos=True, temperature=0.5, top_p=0.9, seed=7,
                presence_penalty=0.5, stop=["never", "ever"], logit_bias={"5": 1})
    told = ask(server, "first", body).json()
    wait_for(lambda: len(lines_of(server, "first")) == 2)
    taken, over = lines_of(server, "first")
    assert re.fullmatch(
        rf'quern: request first: POST {CHAT}: {told["usage"]["prompt_tokens"]} prompt tokens, n 1, temperature 0\.5, '
        r'top_p 0\.9, top_k -?\d+, min_p 0, seed 7, presence_penalty 0\.5, frequency_penalty 0, logit_bias of 1 tokens'
        r', max_tokens 8, 2 stops, ignore_eos; prompt: "(.*)"', taken)
    prompt = json.loads(taken.partition("; prompt: ")[2])
    assert f'<|user|>Say "{SECRET}"\n.' in prompt
    assert over == "quern: request first: choice 0: length after 8 tokens"

    assert ask(server, "second", {**body, "n": 2, "stream": True}).status == 200
    wait_for(lambda: len(lines_of(server, "second")) == 3)
    taken, *ends = lines_of(server, "second")
    assert f"{CHAT}: stream, " in taken and ", n 2, " in taken
    assert sorted(ends) == [f"quern: request second: choice {at}: length after 8 tokens" for at in range(2)]

    assert ask(server, "third", {**body, "temperature": -1}).status == 400
    wait_for(lambda: lines_of(server, "third"))
    assert lines_of(server, "third") == [f"quern: request third: POST {CHAT}: refused with 400"]

    connection, response = open_stream(server, chat("Hi", max_tokens=4000, ignore_eos=True))
    identity = response.getheader("X-Request-Id")
    response.close()
    connection.close()
    wait_for(lambda: len(lines_of(server, identity)) == 2)
    assert lines_of(server, identity)[1].endswith(": ended early: 0 of 1 choices were over")

    server.get("/health")
    server.get("/v1/models")
    about = [line for line in server.stderr if line.startswith("quern: request ")]
    assert len(about) == 2 + 3 + 1 + 2


def test_outputs(start_server):
    server = start_server("--enable-log-requests", "--enable-log-outputs")
    told = ask(server, "one", {**chat(temperature=0, max_tokens=200)}).json()["choices"][0]["message"]
    wait_for(lambda: len(lines_of(server, "one")) == 2)
    output = json.loads(lines_of(server, "one")[1].partition("; output: ")[2])
    assert told["content"] and output.endswith(told["content"]) or told["content"] in output
    assert (told["reasoning_content"] or "") in output


@pytest.mark.parametrize("length", [0, 5])
def test_texts_are_cut(start_server, length):
    server = start_server("--log-requests", "--enable-log-outputs", "--max-log-len", length)
    ask(server, "one", chat("Grüße " * 50, max_tokens=30, ignore_eos=True))
    wait_for(lambda: len(lines_of(server, "one")) == 2)
    for line, name in zip(lines_of(server, "one"), ("prompt", "output")):
        _, found, text = line.partition(f"; {name}: ")
        assert bool(found) == (length > 0)
        assert not found or (text.endswith('"...') and len(json.loads(text[:-3])) == length)


def test_long_prompts_fit_a_line(start_server):
    server = start_server("--log-requests")
    forged = "\nquern: serving on http://evil\x1b[2J"
    ask(server, "long", chat(forged + "word " * 850, max_tokens=1))
    wait_for(lambda: len(lines_of(server, "long")) == 2)
    assert len(lines_of(server, "long")[0].encode()) <= len("quern: ") + 4096 + len("...")
    assert not any("\x1b" in line for line in server.stderr)
    assert len([line for line in server.stderr if line.startswith("quern: serving on")]) == 1


def test_usage(run_quern, tiny):
    done = run_quern("serve", tiny, "--port", "0", "--enable-log-outputs")
    assert done.returncode == 2
    assert done.stderr.startswith(b"quern: --enable-log-outputs: needs --log-requests")


def test_off_by_default_as_with_vllm(start_server):
    server = start_server("--disable-log-requests", "--max-log-len", 10)
    assert answer(server, chat("Hi", max_tokens=2))
    assert [line for line in server.stderr if line.startswith("quern: request")] == []
    assert "quern: --max-log-len: has no effect without --log-requests" in server.stderr
