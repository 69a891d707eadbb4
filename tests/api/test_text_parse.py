"""`quern text parse`: the tool call cases as a program sees them, at any size of pieces, whole and as deltas."""

import json
import pathlib

import pytest

CASES = pathlib.Path("tests/data/tool_calls")


def read_lines(name):
    return [json.loads(line) for line in (CASES / name).read_text().split("\n") if line]


GIVEN = read_lines("glm.jsonl")
TOOLS, CASE_LIST = GIVEN[0], GIVEN[1:] + read_lines("own.jsonl")


@pytest.fixture(scope="module")
def parse(run_quern, tiny, tmp_path_factory):
    tools = tmp_path_factory.mktemp("tools") / "tools.json"
    tools.write_text(json.dumps(TOOLS))

    def lines(*arguments):
        text = "".join(json.dumps(case) + "\n" for case in CASE_LIST)
        done = run_quern("text", "parse", "--jsonl", "--tokenizer", tiny, "--tools", tools, *arguments,
                         stdin=text.encode())
        assert done.returncode == 0, done.stderr
        answers = [json.loads(line) for line in done.stdout.decode().split("\n")[:-1]]
        assert len(answers) == len(CASE_LIST)
        return answers

    return lines


def joined(deltas):
    """What a client makes of a stream."""
    whole = {"reasoning": "", "content": "", "tool_calls": []}
    for delta in deltas:
        (kind, value), = delta.items()
        if kind != "tool_calls":
            assert value
            whole[kind] += value
            continue
        (call,) = value
        if "name" in call:
            assert call["index"] == len(whole["tool_calls"])
            whole["tool_calls"].append({"name": call["name"], "arguments": ""})
        else:
            assert call["index"] == len(whole["tool_calls"]) - 1
            whole["tool_calls"][-1]["arguments"] += call["arguments"]
    return {**whole, "reasoning": whole["reasoning"] or None, "content": whole["content"] or None}


def check(case, answer):
    assert answer["reasoning"] == case["reasoning"], case["name"]
    assert answer["content"] == case["content"], case["name"]
    assert len(answer["tool_calls"]) == len(case["tool_calls"]), case["name"]
    for call, expected in zip(answer["tool_calls"], case["tool_calls"]):
        assert call["name"] == expected["name"], case["name"]
        if "arguments" in expected:
            assert call["arguments"] == expected["arguments"], case["name"]
        else:
            assert json.dumps(expected["arguments_prefix_of"]).startswith(call["arguments"]), case["name"]


@pytest.mark.parametrize("pieces", [[], ["--chunk", "1"], ["--chunk", "2"], ["--chunk", "3"], ["--chunk", "7"]])
def test_cases(parse, pieces):
    whole, deltas = parse(*pieces), parse(*pieces, "--stream")
    for case, answer, stream in zip(CASE_LIST, whole, deltas):
        check(case, answer)
        told = joined(stream)
        for call, expected in zip(told["tool_calls"], case["tool_calls"]):
            if "arguments" in expected:
                call["arguments"] = json.loads(call["arguments"])
        check(case, told)


def test_without_tools_calls_are_text(run_quern, tiny):
    done = run_quern("text", "parse", "--tokenizer", tiny, json.dumps({"output": [["<tool_call>"], "now"]}))
    assert json.loads(done.stdout) == {"reasoning": None, "content": "<tool_call>now", "tool_calls": []}


def test_bad_lines(run_quern, tiny, tmp_path):
    bad = [7, {}, {"output": "x"}, {"output": [1]}, {"output": [["<nothing>"]]}, {"output": [["a", "b"]]},
           {"output": [], "finish": "now"}, {"output": [], "thinking_prompt": 1}]
    text = "".join(json.dumps(line) + "\n" for line in bad)
    done = run_quern("text", "parse", "--jsonl", "--tokenizer", tiny, stdin=text.encode())
    assert done.returncode == 0
    assert all(set(json.loads(line)) == {"error"} for line in done.stdout.splitlines())
    tools = tmp_path / "tools.json"
    tools.write_text('[{"type": "function"}]')
    done = run_quern("text", "parse", "{}", "--tokenizer", tiny, "--tools", tools)
    assert done.returncode == 3
    assert b"tools[0].function" in done.stderr
