"""The request cases that concern what the server has: right status, and the field and code of errors.

What a case checks beyond that (its `check`) is in test_serve.py. Cases of what this version does not have are refused
(400), never answered wrongly; they are listed in NOT_YET, which shrinks as features come."""

import json

import pytest

# cases answered 400, naming a field: the feature is not there yet
NOT_YET = {
    "json-object": "response_format", "json-schema": "response_format", "tools-auto": "tools", "tools-none": "tools",
    "tools-required": "tools", "tools-named": "tools", "tools-named-missing": "tools", "parallel-off": "tools",
    "anthropic-tools": "tool_choice", "responses-tools": "tool_choice",
}
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


def test_cases_of_what_there_is(server, cases):
    covered, wrong = [], []
    for name, case in cases.items():
        if name in NOT_YET or name in AUTHENTICATION:
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
    print(f"{len(covered)} cases covered; not yet: {', '.join(sorted(NOT_YET))}")
    assert not wrong, "\n".join(wrong)
    assert len(covered) >= 80


def test_cases_of_what_is_not_there_are_refused_by_name(server, cases):
    for name, field in NOT_YET.items():
        response = send(server, cases[name])
        assert response.status == 400, name
        error = error_of(response)  # Anthropic's names no field but in its sentence
        assert error.get("param", error["message"].split(":")[0]) == field, name
