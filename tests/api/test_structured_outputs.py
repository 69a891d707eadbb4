"""Answers held to a form: JSON, schemas, regular expressions, choices and grammars, streamed or not, with drafts or
without, and the budget of thoughts."""

import json
import re

import pytest

from chat_client import error_of

PATH = "/v1/chat/completions"
SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "integer"},
        "name": {"type": "string", "maxLength": 20},
        "tags": {"type": "array", "items": {"enum": ["x", "y"]}, "maxItems": 3},
    },
    "required": ["a", "name"],
    "additionalProperties": False,
}
FORMAT = {"response_format": {"type": "json_schema", "json_schema": {"name": "thing", "schema": SCHEMA}}}
GBNF = 'root ::= "a" root "b" | "-"'
LARK = 'start: (WORD " ")+ NUMBER\nWORD: /[a-z]{1,8}/\nNUMBER: /\\d{1,5}/'


def completion(server, seed, **fields):
    response = server.post("/v1/completions", {"model": "quern-tiny", "prompt": "JSON: ", "max_tokens": 300, "seed": seed,
                                               "temperature": 1, **fields})
    assert response.status == 200, response.body
    return response.json()["choices"][0]


def body(seed=0, **fields):
    return {"model": "quern-tiny", "messages": [{"role": "user", "content": "Tell me something."}], "max_tokens": 400,
            "temperature": 1, "seed": seed, "thinking_token_budget": 16, **fields}


def answer(server, seed=0, **fields):
    response = server.post(PATH, body(seed, **fields))
    assert response.status == 200, response.body
    return response.json()["choices"][0]


def streamed(server, seed=0, **fields):
    response = server.post(PATH, body(seed, stream=True, **fields))
    assert response.status == 200, response.body
    chunks = [json.loads(event) for event in response.events()[:-1]]
    return "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)


def fits_schema(text):
    value = json.loads(text)
    assert set(value) <= {"a", "name", "tags"} and {"a", "name"} <= set(value)
    assert type(value["a"]) is int and isinstance(value["name"], str) and len(value["name"]) <= 20
    assert all(tag in ("x", "y") for tag in value.get("tags", [])) and len(value.get("tags", [])) <= 3
    return True


def fits_gbnf(text):
    half = len(text) // 2
    return text == "a" * half + "-" + "b" * half


FORMS = {
    "schema": (FORMAT, fits_schema),
    "schema as text": ({"structured_outputs": {"json": json.dumps(SCHEMA)}}, fits_schema),
    "guided_json": ({"guided_json": SCHEMA}, fits_schema),
    "regex": ({"structured_outputs": {"regex": "[a-c]+\\d{2,3}"}}, lambda t: re.fullmatch("[a-c]+[0-9]{2,3}", t)),
    "choice": ({"guided_choice": ["red", "green", "red-green"]}, lambda t: t in ("red", "green", "red-green")),
    "gbnf": ({"grammar": GBNF}, fits_gbnf),
    "ebnf": ({"structured_outputs": {"grammar": GBNF}}, fits_gbnf),
    "lark": ({"guided_grammar": LARK}, lambda t: re.fullmatch("([a-z]{1,8} )+[0-9]{1,5}", t)),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_finished_answer_has_its_form(server, form):
    fields, fits = FORMS[form]
    finished = 0
    for seed in range(8):
        choice = answer(server, seed, **fields)
        if choice["finish_reason"] == "stop":
            assert fits(choice["message"]["content"] or ""), choice
            finished += 1
    assert finished >= 4
    choice = answer(server, 0, temperature=0, **fields)
    assert choice["finish_reason"] == "length" or fits(choice["message"]["content"])


def test_a_stream_tells_the_same_text(server):
    for seed in range(3):
        assert streamed(server, seed, **FORMAT) == answer(server, seed, **FORMAT)["message"]["content"]


def test_completions_are_held_too(server):
    finished = 0
    for seed in range(6):
        choice = completion(server, seed, **FORMAT)
        if choice["finish_reason"] == "stop":
            assert fits_schema(choice["text"])
            finished += 1
        assert completion(server, seed, guided_choice=["left", "right"])["text"] in ("left", "right")
    assert finished >= 3


def test_json_object(server):
    for seed in range(8):
        choice = answer(server, seed, response_format={"type": "json_object"})
        text = choice["message"]["content"] or ""
        assert choice["finish_reason"] == "length" or isinstance(json.loads(text), dict)
        assert text.startswith("{") or not text


def test_drafts_are_held_to_the_form_and_change_nothing(start_server):
    plain = start_server()
    drafting = start_server("--speculative-config", '{"method": "mtp", "num_speculative_tokens": 3}')
    for seed in range(6):
        for temperature in (0, 1):
            fields = {"temperature": temperature, **FORMAT}
            one, other = answer(plain, seed, **fields), answer(drafting, seed, **fields)
            assert (one["message"], one["finish_reason"]) == (other["message"], other["finish_reason"])


def test_a_form_that_is_complete_ends_whatever_is_asked_for(start_server):
    for server in (start_server(), start_server("--speculative-config", '{"method": "mtp", "num_speculative_tokens": 3}')):
        for fields in ({"ignore_eos": True}, {"min_tokens": 100}, {"ignore_eos": True, "min_tokens": 100}):
            choice = answer(server, guided_choice=["red", "green"], **fields)
            assert choice["finish_reason"] == "stop" and choice["message"]["content"] in ("red", "green"), choice
            assert completion(server, 1, guided_choice=["red", "green"], **fields)["text"] in ("red", "green")


def test_a_stop_string_ends_a_form(server):
    choice = answer(server, guided_choice=["red, green"], stop=[","])
    assert choice["finish_reason"] == "stop" and choice["message"]["content"] == "red"


def test_a_bias_cannot_break_a_form(server):
    bias = {str(token): 100 for token in range(300, 700)}
    choice = answer(server, guided_choice=["red", "green"], logit_bias=bias, thinking_token_budget=0)
    assert choice["message"]["content"] in ("red", "green") and choice["finish_reason"] == "stop"


def test_a_continued_message_goes_on_with_the_form(server):
    messages = [{"role": "user", "content": "Say a colour."}, {"role": "assistant", "content": "It is"}]
    choice = answer(server, messages=messages, add_generation_prompt=False, continue_final_message=True,
                    guided_choice=[" red", " green"])
    assert choice["message"]["content"] in (" red", " green") and not choice["message"].get("reasoning")


@pytest.mark.parametrize("budget", [0, 1, 7])
def test_thoughts_end_at_their_budget(server, budget):
    for seed in range(4):
        response = server.post(PATH, body(seed, thinking_token_budget=budget, max_tokens=40))
        assert response.status == 200, response.body
        assert response.json()["usage"]["completion_tokens_details"]["reasoning_tokens"] <= budget + 3


@pytest.mark.parametrize("fields, param", [
    ({"response_format": {"type": "json_schema"}}, "response_format"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "objekt"}}}},
     "response_format"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"not": {}}}}},
     "response_format"),
    ({"response_format": {"type": "yaml"}}, "response_format"),
    ({"response_format": "json_object"}, "response_format"),
    ({"structured_outputs": {"regex": "(a"}}, "structured_outputs"),
    ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "structured_outputs"),
    ({"structured_outputs": {"structural_tag": "x"}}, "structured_outputs"),
    ({"structured_outputs": []}, "structured_outputs"),
    ({"guided_json": "{oops"}, "guided_json"),
    ({"guided_json": SCHEMA, "guided_regex": "a"}, "guided_regex"),
    ({"guided_choice": []}, "guided_choice"),
    ({"guided_choice": ["a", 1]}, "guided_choice"),
    ({"guided_regex": "a(?=b)"}, "guided_regex"),
    ({"grammar": "root ::= missing"}, "grammar"),
    ({"grammar": 7}, "grammar"),
    ({"thinking_token_budget": -1}, "thinking_token_budget"),
])
def test_what_cannot_be_enforced_is_refused(server, fields, param):
    response = server.post(PATH, body(**fields))
    assert response.status == 400, response.body
    assert error_of(response)["param"] == param
