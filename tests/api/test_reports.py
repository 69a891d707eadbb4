"""Faults that people reported of other servers of these models, where no other test holds them. docs/reports.md has
all."""

import json

from chat_client import CHAT, answer, chat, joined, stream
from conftest import ROOT

INDEX_TOPK = 256  # of the shipped model
DRAFTS = ("--speculative-config", '{"method": "mtp", "num_speculative_tokens": 3}')


def function(name, properties, description):
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {
        "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}}}


CITY = {"city": {"type": "string", "maxLength": 20}}


def calls_of(chunks):
    """[name, pieces of the arguments] of each call of a stream, its id and name checked to come first and once."""
    calls = []
    for chunk in chunks:
        for delta in (delta for choice in chunk["choices"] for delta in choice["delta"].get("tool_calls", [])):
            if delta["index"] == len(calls):
                assert delta["id"] and delta["type"] == "function"
                calls.append([delta["function"]["name"], []])
            else:
                assert "id" not in delta and "name" not in delta["function"]
            calls[delta["index"]][1].append(delta["function"].get("arguments", ""))
    return calls


def test_a_streamed_call_without_arguments_is_told(server):
    body = chat("What time is it?", tools=[function("get_time", {}, "The time.")], tool_choice="required",
                max_tokens=200, thinking_token_budget=32)
    for seed in range(4):
        chunks = stream(server, {**body, "seed": seed})
        ((name, pieces),) = calls_of(chunks)
        assert name == "get_time" and "".join(pieces) == "{}"
        (finish,) = [chunk["choices"][0]["finish_reason"] for chunk in chunks if chunk["choices"][0]["finish_reason"]]
        assert finish == "tool_calls"


def test_a_long_prompt_of_tools_corrupts_nothing(start_server):
    """Some 5,000 tokens of tools, computed whole or in small chunks, with drafts or without: the same answers, and a
    call that is demanded is one that its schema allows."""
    text = "It looks up one city in the tables of the office and tells what they say of it, or nothing at all. "
    tools = [function(f"look_up_{at}", CITY, text * 3) for at in range(40)]
    tools.append(function("get_weather", CITY, "The weather."))
    servers = [start_server(), start_server("--max-num-batched-tokens", "256", *DRAFTS)]
    for fields in ({"temperature": 0, "max_tokens": 48}, {"temperature": 1, "seed": 2, "tool_choice": "required"}):
        fields = {"max_tokens": 200, "thinking_token_budget": 32, **fields}
        body = chat("What is the weather in Oslo?", tools=tools, **fields)
        whole, pieces = (answer(each, body) for each in servers)
        assert 4000 < whole["usage"]["prompt_tokens"] < 8000
        for told in (whole, pieces):
            for call in told["choices"][0]["message"].get("tool_calls", []):
                del call["id"]
        assert whole["choices"] == pieces["choices"]
    (call,) = whole["choices"][0]["message"]["tool_calls"]  # demanded
    assert list(json.loads(call["function"]["arguments"])) == ["city"]


def test_needles_are_found_beyond_the_selected_keys(server):
    """Prompts of 2,000 tokens, of which attention sees the 256 that the indexer chose."""
    lines = (ROOT / "models" / "quern-tiny" / "eval" / "needles.jsonl").read_text(encoding="utf-8").splitlines()
    needles = [needle for needle in map(json.loads, lines) if needle["context_tokens"] == 2048]
    found = 0
    for needle in needles[:5]:
        body = answer(server, chat(temperature=0, max_tokens=64, messages=needle["messages"]))
        assert body["usage"]["prompt_tokens"] > 4 * INDEX_TOPK
        found += needle["expected"] in (body["choices"][0]["message"]["content"] or "")
    assert found >= 4


def test_variables_that_the_template_never_reads_are_told_once(start_server):
    server = start_server()
    for _ in range(3):
        answer(server, chat(max_tokens=1, chat_template_kwargs={"enable_thinking": False, "no_such_thing": 1}))
    for name in ("enable_thinking", "no_such_thing"):
        told = [line for line in server.stderr if f"{name}: the chat template never reads it" in line]
        assert len(told) == 1, name


def test_an_unknown_effort_is_refused_with_those_known(server):
    for fields in ({"reasoning_effort": "galactic"}, {"chat_template_kwargs": {"reasoning_effort": "galactic"}}):
        response = server.post(CHAT, chat(**fields))
        assert response.status == 400
        message = response.json()["error"]["message"]
        assert all(word in message for word in ("galactic", "low", "high", "max"))


def test_a_stop_string_leaks_no_piece_into_a_stream(server):
    """Wherever tokens cut it: every pair and every five of neighbours in the answer's text."""
    ask = chat(temperature=0, max_tokens=200)
    whole = stream(server, ask)
    thoughts, text = joined(whole, "reasoning"), joined(whole, "content")
    assert len(text) >= 8
    stops = {text[begin:begin + length] for begin in range(len(text)) for length in (2, 5)}
    tried = [stop for stop in sorted(stops) if stop not in thoughts]  # a stop string ends thoughts as well
    for stop in tried:
        assert joined(stream(server, {**ask, "stop": stop}), "content") == text[:text.index(stop)].rstrip(), stop
    assert len(tried) >= 8
