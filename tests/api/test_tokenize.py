"""/tokenize and /detokenize: a prompt's ids are those that are computed, and their text is the prompt's. /ping."""

import pytest

from chat_client import answer, chat, error_of

TEXT = "caf\u00e9 \U0001F600 <|user|> 1234"
TOOLS = [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}]


def tokenize(server, **fields):
    response = server.post("/tokenize", {"model": "quern-tiny", **fields})
    assert response.status == 200, response.body
    return response.json()


def text_of(server, tokens):
    response = server.post("/detokenize", {"model": "quern-tiny", "tokens": tokens})
    assert response.status == 200, response.body
    return response.json()


def test_a_text_comes_back_whole(server):
    body = tokenize(server, prompt=TEXT)
    assert body["count"] == len(body["tokens"]) > 3 and body["token_strs"] is None
    assert body["max_model_len"] == server.get("/v1/models").json()["data"][0]["max_model_len"]
    assert text_of(server, body["tokens"]) == {"prompt": TEXT}
    assert tokenize(server, prompt="")["tokens"] == [] and text_of(server, []) == {"prompt": ""}


def test_tokens_are_a_completions_prompt(server):
    response = server.post("/v1/completions", {"prompt": TEXT, "max_tokens": 1, "return_token_ids": True})
    assert tokenize(server, prompt=TEXT)["tokens"] == response.json()["choices"][0]["prompt_token_ids"]


def test_strings_of_tokens(server):
    body = tokenize(server, prompt="Hello there <|user|>", return_token_strs=True)
    assert "".join(body["token_strs"]) == "Hello there <|user|>" and len(body["token_strs"]) == body["count"]
    assert body["token_strs"][-1] == "<|user|>"


def test_messages_are_a_chats_prompt(server):
    messages = chat()["messages"]
    prompt = answer(server, chat(max_tokens=1, return_token_ids=True))["prompt_token_ids"]
    assert tokenize(server, messages=messages)["tokens"] == prompt
    closed = tokenize(server, messages=messages, add_generation_prompt=False)["tokens"]
    assert closed == prompt[:len(closed)] and len(closed) < len(prompt)
    assert tokenize(server, messages=messages, add_special_tokens=True)["tokens"] == prompt
    with_tools = tokenize(server, messages=messages, tools=TOOLS)["tokens"]
    assert len(with_tools) > len(prompt) and '"name"' in text_of(server, with_tools)["prompt"]
    assert tokenize(server, messages=messages, tools=[])["tokens"] == prompt


def test_template_variables_reach_the_template(server):
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "reasoning_content": "thought"},
                {"role": "user", "content": "c"}]
    kept = tokenize(server, messages=messages, chat_template_kwargs={"clear_thinking": False})
    cleared = tokenize(server, messages=messages, chat_template_kwargs={"clear_thinking": True})
    assert kept["count"] > cleared["count"]


@pytest.mark.parametrize("fields", [
    {"tools": [{"type": "function", "function": {"name": "f", "strict": True}}]}, {"tools": TOOLS, "tool_choice": "none"},
    {"thinking": {"type": "disabled"}}, {"reasoning_effort": "low", "thinking": {"type": "enabled"}},
])
def test_what_shapes_a_chats_prompt_shapes_the_ids(server, fields):
    prompt = answer(server, chat(max_tokens=1, return_token_ids=True, **fields))["prompt_token_ids"]
    assert tokenize(server, messages=chat()["messages"], **fields)["tokens"] == prompt


def test_thoughts_of_earlier_turns_are_cleared(server):
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "reasoning_content": "thought"},
                {"role": "user", "content": "c"}]
    for clears in (True, False):
        told = tokenize(server, messages=messages, thinking={"type": "enabled", "clear_thinking": clears})
        assert told == tokenize(server, messages=messages, chat_template_kwargs={"clear_thinking": clears})


@pytest.mark.parametrize("field, fields", [
    ("prompt", {}), ("thinking", {"prompt": "a", "thinking": {"type": "enabled"}}),
    ("tools", {"messages": chat()["messages"], "tools": [{"type": "web_search", "function": {"name": "f"}}]}),
    ("thinking", {"messages": chat()["messages"], "thinking": {"type": "disabled"}, "reasoning_effort": "high"}),
    ("documents", {"messages": chat()["messages"], "documents": [1]}),
    ("separate_reasoning", {"messages": chat()["messages"], "separate_reasoning": False}),
    ("prompt", {"prompt": "a", "messages": chat()["messages"]}), ("prompt", {"prompt": 5}),
    ("prompt", {"prompt": [1]}), ("messages", {"messages": []}), ("messages", {"messages": "a"}),
    ("tools", {"messages": chat()["messages"], "tools": "f"}), ("tools", {"messages": chat()["messages"], "tools": [5]}),
    ("tools", {"messages": chat()["messages"], "tools": [{"type": "function"}]}),
    ("tools", {"prompt": "a", "tools": TOOLS}),
    ("add_generation_prompt", {"prompt": "a", "add_generation_prompt": True}),
    ("continue_final_message", {"messages": chat()["messages"], "continue_final_message": True}),
    ("chat_template", {"messages": chat()["messages"], "chat_template": "x"}),
    ("reasoning_effort", {"messages": chat()["messages"], "reasoning_effort": "galactic"}),
    ("return_token_strs", {"prompt": "a", "return_token_strs": 1}), ("request_id", {"prompt": "a", "request_id": ""}),
])
def test_what_can_not_be_tokenized_is_refused_by_name(server, field, fields):
    response = server.post("/tokenize", fields)
    assert response.status == 400, response.body
    assert error_of(response)["param"] == field


@pytest.mark.parametrize("tokens", [None, 5, "a", [-1], [1.5], ["a"], [None], [10 ** 9], [2 ** 64]])
def test_what_are_no_tokens_is_refused(server, tokens):
    response = server.post("/detokenize", {"tokens": tokens})
    assert response.status == 400, response.body
    assert error_of(response)["param"] == "tokens"


def test_another_model_is_unknown(server):
    for path in ("/tokenize", "/detokenize"):
        response = server.post(path, {"model": "nope", "prompt": "a", "tokens": [1]})
        assert (response.status, error_of(response)["code"]) == (404, "model_not_found")


def test_ping_is_health(server):
    assert server.get("/ping").status == server.post("/ping", b"").status == server.get("/health").status == 200
