"""The tools gate: every kind of demand on the shipped model's own tool prompts, streamed or not, greedy or sampled, with
drafts or without, on three server starts; and 400 sampled calls that are demanded though the prompt needs none."""

import itertools
import json
import os

import pytest

from crowd import in_threads


STARTS = 3
AT_ONCE = 16
PATH = "/v1/chat/completions"
MARKUP = ("<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "<think>", "</think>")
DEMANDS = ("required", "named", "auto", "none", "json_schema")
DRAFTS = ("--speculative-config", '{"method": "mtp", "num_speculative_tokens": 3}')
SAMPLED_CALLS = 400
# a sanitized build answers a tenth as fast
SANITIZED = "ASAN_OPTIONS" in os.environ


def bounded(schema):
    """The schema with its strings and arrays bounded, so that no call can be cut by max_tokens."""
    kind = schema.get("type")
    if kind == "string" and "enum" not in schema:
        return {**schema, "maxLength": 40}
    if kind == "array":
        return {**schema, "items": bounded(schema.get("items", {"type": "integer"})), "maxItems": 6}
    if kind == "object":
        return {**schema, "properties": {name: bounded(each) for name, each in schema.get("properties", {}).items()},
                "additionalProperties": False}
    if kind == "integer":
        return {**schema, "minimum": -99999, "maximum": 99999}
    return schema


def is_valid(value, schema):
    """By the keywords that the prompts' schemas have; an unknown one is a mistake of this test."""
    assert set(schema) <= {"type", "description", "properties", "required", "additionalProperties", "items", "enum",
                           "maxLength", "maxItems", "minItems", "minimum", "maximum"}, schema
    kind = schema.get("type")
    if "enum" in schema:
        return value in schema["enum"]
    if kind == "string":
        return isinstance(value, str) and len(value) <= schema["maxLength"]
    if kind == "integer":
        return type(value) is int and schema["minimum"] <= value <= schema["maximum"]
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "array":
        return isinstance(value, list) and len(value) <= schema["maxItems"] and all(
            is_valid(each, schema["items"]) for each in value)
    assert kind == "object", schema
    return (isinstance(value, dict) and set(value) <= set(schema["properties"]) and
            set(schema.get("required", [])) <= set(value) and
            all(is_valid(each, schema["properties"][name]) for name, each in value.items()))


def tools_of(case):
    return [{"type": "function", "function": {**tool["function"], "parameters": bounded(tool["function"]["parameters"])}}
            for tool in case["tools"]]


def lines(tiny, name):
    text = (tiny / "eval" / name).read_text()
    return [json.loads(line) for line in text.splitlines()]


def demand(kind, tools):
    if kind == "json_schema":
        schema = bounded({"type": "object", "required": ["name", "age"], "properties": {
            "name": {"type": "string"}, "age": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}}})
        return {"response_format": {"type": "json_schema", "json_schema": {"name": "person", "schema": schema}}}
    named = {"type": "function", "function": {"name": tools[0]["function"]["name"]}}
    return {"tools": tools, "tool_choice": named if kind == "named" else kind}


def ask(server, messages, streamed, **fields):
    """(content, [(name, arguments as text)], finish_reason)"""
    response = server.post(PATH, {"model": "quern-tiny", "messages": messages, "max_tokens": 512, "stream": streamed,
                                  "thinking_token_budget": 128, **fields})
    assert response.status == 200, response.body
    if not streamed:
        choice = response.json()["choices"][0]
        calls = [(call["function"]["name"], call["function"]["arguments"]) for call in
                 choice["message"].get("tool_calls", [])]
        return choice["message"]["content"] or "", calls, choice["finish_reason"]
    content, calls, finish = "", [], None
    for event in response.events()[:-1]:
        choice = json.loads(event)["choices"][0]
        finish = finish or choice["finish_reason"]
        content += choice["delta"].get("content") or ""
        for part in choice["delta"].get("tool_calls", []):
            if "id" in part:
                calls.append((part["function"]["name"], part["function"]["arguments"]))
            else:
                calls[-1] = (calls[-1][0], calls[-1][1] + part["function"]["arguments"])
    return content, calls, finish


def fault(kind, tools, fields, content, calls, finish):
    """What is wrong with the answer; None: nothing."""
    if any(tag in content + json.dumps(calls) for tag in MARKUP):
        return "markup"
    if finish not in ("stop", "tool_calls"):
        return f"ended as {finish}"
    if (finish == "tool_calls") != bool(calls):
        return "finish_reason and calls do not agree"
    if kind == "json_schema":
        schema = fields["response_format"]["json_schema"]["schema"]
        return None if is_valid(json.loads(content), schema) else "not the form"
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    if kind in ("required", "named") and (len(calls) != 1 or content):
        return "not exactly one call"
    if kind == "named" and calls[0][0] != tools[0]["function"]["name"]:
        return "another tool"
    if kind == "none" and calls:
        return "a call"
    for name, arguments in calls:
        value = json.loads(arguments)
        if name not in schemas or (kind in ("required", "named") and not is_valid(value, schemas[name])):
            return "arguments that the schema does not allow"
    return None


def run_all(calls):
    """The results of all calls, AT_ONCE of them at the same time."""
    results = []
    for at in range(0, len(calls), AT_ONCE):
        results += in_threads(calls[at:at + AT_ONCE])
    return results


@pytest.mark.parametrize("drafts", [(), DRAFTS], ids=["plain", "drafts"])
@pytest.mark.parametrize("start", range(1 if SANITIZED else STARTS))
def test_gate(start_server, tiny, start, drafts):
    server = start_server(*drafts)
    cases = lines(tiny, "tools.jsonl")[:4 if SANITIZED else 32]
    score = {}
    for kind, streamed, temperature in itertools.product(DEMANDS, (False, True), (0, 1)):
        def one(at, case):
            tools = tools_of(case)
            fields = demand(kind, tools)
            answer = ask(server, case["messages"], streamed, temperature=temperature, seed=100 * start + at, **fields)
            return fault(kind, tools, fields, *answer), answer
        results = run_all([lambda at=at, case=case: one(at, case) for at, case in enumerate(cases)])
        faults = [result for result in results if result is None or result[0] is not None]
        assert not faults, (kind, streamed, temperature, faults)
        score[(kind, "streamed" if streamed else "whole", temperature)] = len(results) - len(faults)
    for (kind, form, temperature), good in score.items():
        print(f"start {start}, {'drafts' if drafts else 'no drafts'}: {kind}, {form}, temperature {temperature}: "
              f"{good}/{len(cases)}")


def test_calls_that_are_demanded_for_nothing(start_server, tiny):
    """A prompt that needs no tool: one valid call each time, none of them cut."""
    server = start_server(*DRAFTS)
    tools = tools_of(lines(tiny, "tools.jsonl")[0])
    prompts = ("Tell me a story.", "Hello!", "What is 12 plus 30?", "List three animals.")
    count = 16 if SANITIZED else SAMPLED_CALLS

    def one(seed):
        messages = [{"role": "user", "content": prompts[seed % len(prompts)]}]
        answer = ask(server, messages, seed % 2 == 1, tools=tools, tool_choice="required", temperature=1, seed=seed)
        return fault("required", tools, {}, *answer), answer

    results = run_all([lambda seed=seed: one(seed) for seed in range(count)])
    faults = [result for result in results if result is None or result[0] is not None]
    print(f"{count - len(faults)} of {count} end in a valid call")
    assert not faults, faults
