"""The request cases that concern what the server has: right status, and the field and code of errors.

What a case checks beyond that (its `check`) is in CHECKS here, where it concerns one answer; what it says of several is
in OTHER_CHECKS. Cases of what this version does not have are refused (400), never answered wrongly; they are listed in
NOT_YET. A case taken out of that list is asked for its status and, where it has one, its check: nothing else changes
here."""

import json
import re

import pytest

# need --api-key: test_auth.py asks them
AUTHENTICATION = {"auth-missing", "auth-wrong", "auth-anthropic-header"}
# a body that is made here
HUGE_BODY_BYTES = 200 << 20


@pytest.fixture(scope="module")
def cases(shared):
    lines = (shared / "cases" / "api" / "requests.jsonl").read_text().split("\n")
    return {case["name"]: case for case in map(json.loads, filter(None, lines))}


def build(value):
    """Python text of the form RULE: 'x' * N stands for its result."""
    if isinstance(value, str) and value.startswith("RULE: "):
        text, count = value.removeprefix("RULE: ").rsplit(" * ", 1)
        return json.loads('"' + text.strip("'") + '"') * int(count)
    if isinstance(value, dict):
        return {key: build(item) for key, item in value.items()}
    if isinstance(value, list):
        return [build(item) for item in value]
    return value


def send(server, case):
    body = case.get("body")
    if case["name"] == "huge-body":
        body = b" " * HUGE_BODY_BYTES
    elif isinstance(body, str):
        body = body.encode()
    elif body is not None:
        body = json.dumps(build(body)).encode()
    return server.request(case["method"], case["path"], body, case.get("headers"))


def error_of(response):
    return json.loads(response.body)["error"]


def chunks_of(response):
    events = response.events()
    assert events[-1] == "[DONE]"
    return [json.loads(event) for event in events[:-1]]


def check_stream(response):
    chunks = chunks_of(response)
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    reasons = [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"]]
    assert len([reason for reason in reasons if reason]) == 1 and reasons[-1]


def check_stream_usage(response):
    chunks = chunks_of(response)
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] > 0
    assert {chunk["usage"] for chunk in chunks[:-1]} == {None}


def check_choices(response):
    choices = response.json()["choices"]
    assert [choice["index"] for choice in choices] == [0, 1]


def check_logprobs(response):
    body = response.json()
    entries = body["choices"][0]["logprobs"]["content"]
    assert len(entries) == body["usage"]["completion_tokens"]
    for entry in entries:
        told = [other["logprob"] for other in entry["top_logprobs"]]
        assert len(told) == 5 and told == sorted(told, reverse=True)
        assert entry["token"] in [other["token"] for other in entry["top_logprobs"]]
        assert isinstance(entry["bytes"], list)


def check_echo(response):
    (choice,) = response.json()["choices"]
    logprobs = choice["logprobs"]
    assert choice["text"] == "Hello" and logprobs["token_logprobs"][0] is None
    assert all(value <= 0 for value in logprobs["token_logprobs"][1:])


def completion_tokens(response):
    return response.json()["usage"]["completion_tokens"]


def check_models(response):
    (model,) = response.json()["data"]
    assert model["id"] == "quern-tiny" and model["max_model_len"] > 0


def check_metrics(response):
    """What promtool asks of the text format: every family has its help and its type once, before its samples, which
    stand together; counters are named as such; a histogram's buckets grow up to its count."""
    helps, kinds, samples = {}, {}, {}
    for line in response.body.decode().splitlines():
        if line.startswith("# "):
            _, word, name, text = line.split(" ", 3)
            seen = {"HELP": helps, "TYPE": kinds}[word]
            assert name not in seen and text and name not in samples, line
            seen[name] = text
            continue
        series, value = line.rsplit(" ", 1)
        name = series.partition("{")[0]
        family = name if name in kinds else re.sub("_(bucket|sum|count)$", "", name)
        assert family in kinds and family in helps and family == list(kinds)[-1], line
        assert series not in samples.setdefault(family, {}), line
        samples[family][series] = float(value)
    assert set(samples) == set(kinds) == set(helps)
    for family, kind in kinds.items():
        assert kind != "counter" or family.endswith("_total"), family
        if kind == "histogram":
            buckets = [value for series, value in samples[family].items() if "_bucket{" in series]
            (count,) = [value for series, value in samples[family].items() if "_count{" in series]
            assert buckets == sorted(buckets) and buckets[-1] == count, family


def check_tokenize(response):
    body = response.json()
    assert body["count"] == len(body["tokens"]) > 0 and body["max_model_len"] > 0


def check_response(response):
    body = response.json()
    kinds = [item["type"] for item in body["output"]]
    assert kinds and set(kinds) <= {"reasoning", "message"} and body["usage"]["output_tokens"] > 0


def check_response_stream(response):
    events = [json.loads(event) for event in response.events() if event != "[DONE]"]
    assert events[0]["type"] == "response.created"
    assert events[-1]["type"] in ("response.completed", "response.incomplete")
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


def check_anthropic_stream(response):
    names = [line.removeprefix("event: ") for line in response.body.decode().split("\n") if line.startswith("event: ")]
    assert names[0] == "message_start" and names[-2:] == ["message_delta", "message_stop"]
    assert names.count("content_block_start") == names.count("content_block_stop") > 0


def choice_of(response):
    (choice,) = response.json()["choices"]
    return choice


def check_json_object(response):
    choice = choice_of(response)
    if choice["finish_reason"] != "length":
        assert isinstance(json.loads(choice["message"]["content"]), dict)


def check_no_calls(response):
    choice = choice_of(response)
    assert not choice["message"].get("tool_calls") and choice["finish_reason"] != "tool_calls"


def check_one_call(response):
    """Of the cases' tool: f, whose only argument `a` is a string that it needs."""
    choice = choice_of(response)
    assert choice["finish_reason"] == "tool_calls"
    (call,) = choice["message"]["tool_calls"]
    assert call["type"] == "function" and call["id"] and call["function"]["name"] == "f"
    arguments = json.loads(call["function"]["arguments"])
    assert set(arguments) == {"a"} and isinstance(arguments["a"], str)


def check_tool_use(response):
    body = response.json()
    calls = [block for block in body["content"] if block["type"] == "tool_use"]
    assert calls and all(call["name"] == "f" and call["id"] for call in calls)
    assert all(isinstance(call["input"], dict) for call in calls) and body["stop_reason"] == "tool_use"


def check_function_call(response):
    calls = [item for item in response.json()["output"] if item["type"] == "function_call"]
    assert calls and all(call["name"] == "f" and call["call_id"] for call in calls)
    assert all(json.loads(call["arguments"]) == {} for call in calls)


CHECKS = {
    "stream": check_stream, "stream-usage": check_stream_usage, "n-2": check_choices,
    "max-completion-tokens": lambda response: completion_tokens(response) <= 4 or pytest.fail("too many tokens"),
    "ignore-eos": lambda response: completion_tokens(response) == 8 or pytest.fail("not max_tokens"),
    "min-tokens": lambda response: completion_tokens(response) >= 5 or pytest.fail("too few tokens"),
    "logprobs": check_logprobs, "completion-batch": check_choices, "completion-echo": check_echo,
    "models": check_models, "metrics": check_metrics, "tokenize": check_tokenize,
    "anthropic-stream": check_anthropic_stream,
    "responses": check_response, "responses-stream": check_response_stream,
    "json-object": check_json_object, "tools-none": check_no_calls, "tools-required": check_one_call,
    "tools-named": check_one_call, "parallel-off": check_one_call, "anthropic-tools": check_tool_use,
    "responses-tools": check_function_call,
}
# checked elsewhere: test_serve.py's test_seed_decides, test_crowd_gets_what_one_gets and
# test_speculation_changes_no_answer
OTHER_CHECKS = {"seed"}


def test_cases_of_what_there_is(server, cases):
    covered, wrong = [], []
    for name, case in cases.items():
        if name in AUTHENTICATION:
            continue
        response = send(server, case)
        covered.append(name)
        got = {"status": response.status}
        wanted = {"status": case["status"]}
        if response.status >= 400 and case["method"] != "HEAD":
            error = error_of(response)
            for key in ("param", "code", "type"):
                if key in case:
                    wanted[key], got[key] = case[key], error[key]
        if got != wanted:
            wrong.append(f"{name}: {got}, not {wanted}: {response.body[:300]}")
    print(f"{len(covered)} cases covered")
    assert not wrong, "\n".join(wrong)
    assert len(covered) >= 80


def test_what_cases_say_of_their_answers(server, cases):
    assert {name for name, case in cases.items() if "check" in case} == set(CHECKS) | OTHER_CHECKS
    for name, check in CHECKS.items():
        if name in AUTHENTICATION:
            continue
        response = send(server, cases[name])
        assert response.status == 200, name
        check(response)
