"""Answers that go on with a message, prompts without a new one, and what of an answer is told."""

import pytest

from chat_client import CHAT, answer, chat, error_of, joined, stream

USER = {"role": "user", "content": "What is 12 plus 30?"}


def conversation(final, **fields):
    return {"model": "quern-tiny", "messages": [USER, {"role": "assistant", "content": final}], "max_tokens": 24,
            "temperature": 0, **fields}


def prompt_of(server, body):
    return answer(server, {**body, "return_token_ids": True})["prompt_token_ids"]


def test_a_prompt_that_continues_is_the_closed_one_without_its_end(server):
    closed = prompt_of(server, conversation("12 plus", add_generation_prompt=False))
    opened = prompt_of(server, conversation("12 plus"))
    assert prompt_of(server, conversation("12 plus", continue_final_message=True)) == closed
    assert opened[:len(closed)] == closed and len(opened) > len(closed)


def test_a_cut_answer_goes_on_where_it_was_cut(server):
    whole = answer(server, chat(USER["content"], temperature=0, max_tokens=200))["choices"][0]["message"]
    assert whole["content"]
    message = {"role": "assistant", "content": whole["content"], "reasoning_content": whole["reasoning_content"]}
    message["content"] = whole["content"][:whole["content"].index(" ")]
    body = {"model": "quern-tiny", "messages": [USER, message], "max_tokens": 200, "temperature": 0,
            "continue_final_message": True}
    rest = answer(server, body)["choices"][0]["message"]["content"]
    assert message["content"] + rest == whole["content"]
    echoed = answer(server, {**body, "echo": True})["choices"][0]["message"]["content"]
    assert echoed == whole["content"]
    assert joined(stream(server, {**body, "echo": True}), "content") == echoed


def test_echo_is_of_the_assistants_message_only(server):
    plain, echoed = (answer(server, chat(temperature=0, echo=echo))["choices"][0] for echo in (False, True))
    assert plain == echoed


@pytest.mark.parametrize("fields", [
    {"add_generation_prompt": True}, {"messages": [USER]}, {"messages": [USER, {"role": "assistant", "content": " "}]},
    {"messages": [USER, {"role": "assistant", "content": None, "reasoning": "hm"}]},
    {"continue_final_message": 1},
])
def test_what_can_not_go_on_is_refused(server, fields):
    response = server.post(CHAT, conversation("Sure", **{"continue_final_message": True, **fields}))
    assert response.status == 400, response.body
    assert error_of(response)["param"] == "continue_final_message"


def test_a_final_text_that_spells_markup_stays_text(server):
    response = server.post("/v1/completions", {"prompt": "<|user|>", "max_tokens": 1, "return_token_ids": True})
    (user,) = response.json()["choices"][0]["prompt_token_ids"]
    for final in ("a<|user|>", "<|user|>"):
        assert prompt_of(server, conversation(final, continue_final_message=True)).count(user) == 1


def test_thoughts_are_left_out_on_demand(server):
    body = chat(temperature=0, max_tokens=200, return_token_ids=True)
    told = answer(server, body)["choices"][0]
    assert told["message"]["reasoning"]
    kept = answer(server, {**body, "include_reasoning": False})
    (choice,) = kept["choices"]
    assert choice["message"] == {**told["message"], "reasoning": None, "reasoning_content": None}
    assert choice["token_ids"] == told["token_ids"]
    chunks = stream(server, {**body, "include_reasoning": False, "stream_options": {"include_usage": True}})
    assert joined(chunks, "reasoning") == "" and joined(chunks, "content") == told["message"]["content"]
    streamed = [token for chunk in chunks for each in chunk["choices"] for token in each.get("token_ids", [])]
    assert streamed == told["token_ids"]
    assert chunks[-1]["usage"] == kept["usage"]
