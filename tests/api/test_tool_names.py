"""How long a tool's name may be: OpenAI's APIs allow 64 bytes, Anthropic's 128."""

import pytest

SCHEMA = {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]}


def chat(name):
    return "/v1/chat/completions", {
        "messages": [{"role": "user", "content": "Hi"}], "max_completion_tokens": 400, "thinking_token_budget": 16,
        "tools": [{"type": "function", "function": {"name": name, "parameters": SCHEMA}}], "tool_choice": "required"}


def responses(name):
    return "/v1/responses", {
        "input": "Hi", "max_output_tokens": 400, "thinking_token_budget": 16,
        "tools": [{"type": "function", "name": name, "parameters": SCHEMA}], "tool_choice": "required"}


def messages(name):
    return "/v1/messages", {
        "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 400, "thinking_token_budget": 16,
        "tools": [{"name": name, "input_schema": SCHEMA}], "tool_choice": {"type": "any"}}


def called(path, body):
    """The names that an answer calls."""
    if path == "/v1/chat/completions":
        return [call["function"]["name"] for call in body["choices"][0]["message"]["tool_calls"]]
    items = body["output"] if path == "/v1/responses" else body["content"]
    return [item["name"] for item in items if item["type"] in ("function_call", "tool_use")]


@pytest.mark.parametrize("ask, most", [(chat, 64), (responses, 64), (messages, 128)])
def test_names_as_long_as_they_may_be_and_longer(server, ask, most):
    name = ("get-the_weather9" * 8)[:most]
    path, body = ask(name)
    response = server.post(path, body)
    assert response.status == 200, response.body
    assert called(path, response.json()) == [name]
    path, body = ask(name + "x")
    response = server.post(path, body)
    assert response.status == 400
    message = response.json()["error"]["message"]
    assert "tools[0]" in message and "name" in message and str(most) in message
