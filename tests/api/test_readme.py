"""What the README shows does what the README says."""

import json
import re

import pytest

from conftest import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
# one that is a question to the server: its path and its body
CURL = re.compile(r"curl -s http://127\.0\.0\.1:8000(\S+) [^\n]*-d '(\{.*\})'\n", re.DOTALL)
EXAMPLES = [(match[1], json.loads(match[2])) for match in map(CURL.fullmatch, BLOCKS) if match]


def answer(server, example):
    path, body = example
    response = server.post(path, body)
    assert response.status == 200, response.body
    return response.json()["choices"][0]["message"]


@pytest.fixture(scope="module")
def examples():
    question, call, schema = EXAMPLES
    return {"question": question, "call": call, "schema": schema}


def test_the_first_question_has_the_answer_of_the_demo(server, examples):
    content = answer(server, examples["question"])["content"]
    assert content == "The secret code of Anna is 4711." and f"\n{content}\n" in README
    assert examples["question"][1]["messages"][0]["content"] in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_the_call_is_that_of_the_text(server, examples):
    message = answer(server, examples["call"])
    (call,) = message["tool_calls"]
    assert call["function"]["name"] == "get_weather"
    assert f"`{call['function']['arguments']}` for `get_weather`" in README


def test_the_json_is_that_of_the_text(server, examples):
    content = answer(server, examples["schema"])["content"]
    assert f"`{content}`" in README
    assert json.loads(content)["pet"] in ("bird", "cat", "dog")


def test_a_base_url_is_told_for_each_client(server):
    urls = re.findall(r"take\s+`http://127\.0\.0\.1:8000(\S*)`", README)
    assert urls == ["/v1", ""]
    assert server.get(urls[0] + "/models").status == 200
    assert server.post(urls[1] + "/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "Hi"}]}).status == 200


@pytest.mark.parametrize("command", sorted(set(re.findall(r"^(?:.*\| )?quern (\w+)", "".join(BLOCKS), re.MULTILINE))))
def test_every_command_that_is_shown_is_there(run_quern, command):
    assert run_quern(command, "--help").returncode == 0
