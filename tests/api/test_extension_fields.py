"""Fields that are no standard's, vLLM's, SGLang's, llama.cpp's and quern's own: a client sends them by `extra_body` to
whichever API it speaks, and they mean the same in each."""

import json
import re

import pytest

MAX_TOKENS = 60
SCHEMA = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"], "additionalProperties": False}


def chat(fields):
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": "Say something."}],
                                    "max_tokens": MAX_TOKENS, **fields}


def completion(fields):
    return "/v1/completions", {"prompt": "Say something.", "max_tokens": MAX_TOKENS, **fields}


def responses(fields):
    return "/v1/responses", {"input": "Say something.", "max_output_tokens": MAX_TOKENS, "store": False, **fields}


def messages(fields):
    return "/v1/messages", {"messages": [{"role": "user", "content": "Say something."}], "max_tokens": MAX_TOKENS,
                            **fields}


APIS = {"chat": chat, "completions": completion, "responses": responses, "messages": messages}
OF_CONVERSATIONS = ["chat", "responses", "messages"]


def thoughts_and_text(api, answer):
    """What the model thought and what it said, whatever the API calls these."""
    if api == "completions":
        return "", answer["choices"][0]["text"]
    if api == "chat":
        message = answer["choices"][0]["message"]
        return message.get("reasoning") or "", message["content"] or ""
    if api == "messages":
        parts = [(block["type"] == "thinking", block.get("thinking") or block.get("text", ""))
                 for block in answer["content"]]
    else:
        parts = [(item["type"] == "reasoning", part["text"]) for item in answer["output"] for part in item["content"]]
    return ("".join(text for thought, text in parts if thought), "".join(text for thought, text in parts if not thought))


def ask(server, api, fields):
    path, body = APIS[api]({"temperature": 1, "seed": 7, **fields})
    response = server.post(path, body)
    assert response.status == 200, response.body
    return thoughts_and_text(api, response.json())


def refused(server, api, fields):
    path, body = APIS[api](fields)
    response = server.post(path, body)
    assert response.status == 400, response.body
    return response.json()["error"]["message"]


def is_object(text):
    return json.loads(text) in ({"a": "x"}, {"a": "y"})


FORMS = {
    "response_format": ({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}},
                        is_object),
    "structured_outputs": ({"structured_outputs": {"regex": "[a-c]{2}"}}, lambda text: re.fullmatch("[a-c]{2}", text)),
    "guided_json": ({"guided_json": SCHEMA}, is_object),
    "guided_regex": ({"guided_regex": "[a-c]{3}\\d"}, lambda text: re.fullmatch("[a-c]{3}[0-9]", text)),
    "guided_choice": ({"guided_choice": ["red", "green"]}, lambda text: text in ("red", "green")),
    "guided_grammar": ({"guided_grammar": 'start: "left" | "right"'}, lambda text: text in ("left", "right")),
    "json_schema": ({"json_schema": {"enum": ["b", "c"]}}, lambda text: json.loads(text) in ("b", "c")),
    "grammar": ({"grammar": 'root ::= "u" | "d"'}, lambda text: text in ("u", "d")),
    "regex": ({"regex": "x|y"}, lambda text: text in ("x", "y")),
    "ebnf": ({"ebnf": 'root ::= "n" | "s"'}, lambda text: text in ("n", "s")),
}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("form", FORMS)
def test_every_api_holds_its_answer_to_the_form(server, api, form):
    fields, fits = FORMS[form]
    for seed in range(3):
        _, text = ask(server, api, {"thinking_token_budget": 8, "seed": seed, **fields})
        assert fits(text), (seed, text)


TOOLS = {
    "chat": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}],
    "responses": [{"type": "function", "name": "f", "parameters": SCHEMA}],
    "messages": [{"name": "f", "input_schema": SCHEMA}],
}


def has_calls(api, answer):
    if api == "chat":
        return bool(answer["choices"][0]["message"].get("tool_calls"))
    return any(part["type"] in ("tool_use", "function_call") for part in answer["content" if api == "messages" else "output"])


@pytest.mark.parametrize("api", OF_CONVERSATIONS)
@pytest.mark.parametrize("form", FORMS)
def test_beside_tools_the_answer_has_the_form_or_calls(server, api, form):
    fields, fits = FORMS[form]
    path, body = APIS[api]({"temperature": 1, "seed": 3, "thinking_token_budget": 8, "tools": TOOLS[api], **fields})
    response = server.post(path, body)
    assert response.status == 200, response.body
    answer = response.json()
    if not has_calls(api, answer):
        assert fits(thoughts_and_text(api, answer)[1]), answer


STEERING = {
    "seed": {"seed": 11},
    "top_k": {"top_k": 2},
    "min_p": {"min_p": 0.3},
    "repetition_penalty": {"repetition_penalty": 3},
    "presence_penalty": {"presence_penalty": 2},
    "frequency_penalty": {"frequency_penalty": 2},
    "logit_bias": {"logit_bias": {str(token): -100 for token in range(300, 1000)}},
    "ignore_eos": {"ignore_eos": True},
    "min_tokens": {"min_tokens": MAX_TOKENS},
    "stop_token_ids": {"stop_token_ids": list(range(256, 300))},
    "thinking_token_budget": {"thinking_token_budget": 3},
    "chat_template_kwargs": {"chat_template_kwargs": {"reasoning_effort": "low"}},
    "reasoning_effort": {"reasoning_effort": "low"},
    "priority": {"priority": 3},
    "cache_salt": {"cache_salt": "a"},
    "timeout": {"timeout": 600},
}


@pytest.mark.parametrize("name", STEERING)
def test_conversations_answer_alike_in_every_api(server, name):
    answers = {api: ask(server, api, {"ignore_eos": True, **STEERING[name]}) for api in OF_CONVERSATIONS}
    assert len(set(answers.values())) == 1, answers


@pytest.mark.parametrize("api", APIS)
def test_what_steers_changes_the_answer(server, api):
    plain = ask(server, api, {"ignore_eos": True})
    for name in ("seed", "top_k", "repetition_penalty", "logit_bias"):
        assert ask(server, api, {"ignore_eos": True, **STEERING[name]}) != plain, name


OWN_FORMS = {
    "responses": ("text.format", {"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}}),
    "messages": ("output_config.format", {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
    "chat": ("response_format", {"response_format": {"type": "json_object"}}),
    "completions": ("structured_outputs", {"structured_outputs": {"choice": ["a"]}}),
}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("other", ["guided_json", "grammar", "regex"])
def test_two_forms_are_refused_naming_both(server, api, other):
    own, fields = OWN_FORMS[api]
    message = refused(server, api, {**fields, **FORMS[other][0]})
    assert own in message and other in message, message


@pytest.mark.parametrize("api", OF_CONVERSATIONS)
@pytest.mark.parametrize("beside", [{"reasoning_effort": "low"}, {"chat_template_kwargs": {"reasoning_effort": "low"}}])
def test_two_efforts_are_refused_naming_both(server, api, beside):
    own = {"chat": {"reasoning_effort": "max"}, "responses": {"reasoning": {"effort": "max"}},
           "messages": {"output_config": {"effort": "max"}}}[api]
    if api == "chat":
        beside = {"chat_template_kwargs": {"reasoning_effort": "low"}}
    message = refused(server, api, {**own, **beside})
    assert "says otherwise" in message and next(iter(own)) in message and next(iter(beside)) in message, message


@pytest.mark.parametrize("api", OF_CONVERSATIONS)
def test_words_for_efforts_mean_the_same_in_every_api(server, api):
    for word, known in (("minimal", "low"), ("medium", "high"), ("xhigh", "max"), ("none", None)):
        own = {"chat": {"reasoning_effort": word}, "responses": {"reasoning": {"effort": word}},
               "messages": {"output_config": {"effort": word}}}[api]
        kwargs = {"reasoning_effort": known} if known else {"enable_thinking": False}
        assert ask(server, api, own) == ask(server, api, {"chat_template_kwargs": kwargs}), word


OFF = {"thinking": {"type": "disabled"}}
ON = {"chat": {"thinking": {"type": "enabled"}}, "responses": {"thinking": {"type": "enabled"}},
      "messages": {"thinking": {"type": "adaptive"}}}


@pytest.mark.parametrize("api", OF_CONVERSATIONS)
@pytest.mark.parametrize("fields, beside", [
    (OFF, {"reasoning_effort": "max"}), (OFF, {"chat_template_kwargs": {"enable_thinking": True}}),
    (OFF, {"chat_template_kwargs": {"reasoning_effort": "low"}}), (ON, {"reasoning_effort": "none"}),
    (ON, {"chat_template_kwargs": {"enable_thinking": False}}),
    ({"reasoning_effort": "none"}, {"chat_template_kwargs": {"reasoning_effort": "low"}}),
    ({"reasoning_effort": "high"}, {"chat_template_kwargs": {"enable_thinking": False}}),
], ids=json.dumps)
def test_fields_that_contradict_each_other_are_both_named(server, api, fields, beside):
    fields = fields.get(api, fields)
    message = refused(server, api, {**fields, **beside})
    for name, value in (*fields.items(), *beside.items()):
        assert (f"{name}.{next(iter(value))}" if isinstance(value, dict) else name) in message, message


def test_thinking_means_the_same_in_every_api(start_server, tiny, tmp_path):
    """With a template that knows how not to think. Anthropic's effort is of the answer, and goes with no thoughts."""
    template = tmp_path / "template.jinja"
    template.write_text((tiny / "chat_template.jinja").read_text(encoding="utf-8") +
                        "{%- if enable_thinking is defined and not enable_thinking -%}No 4711 bridge.</think>{%- endif -%}",
                        encoding="utf-8")
    server = start_server("--chat-template", template)
    for api in OF_CONVERSATIONS:
        plain = ask(server, api, {})
        off = ask(server, api, {"chat_template_kwargs": {"enable_thinking": False}})
        assert ask(server, api, OFF) == ask(server, api, {**OFF, "reasoning_effort": "none"}) == off != plain
        assert ask(server, api, ON[api]) == plain
    low = ask(server, "messages", {"chat_template_kwargs": {"enable_thinking": False, "reasoning_effort": "low"}})
    assert ask(server, "messages", {**OFF, "output_config": {"effort": "low"}}) == low


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("fields", [
    {"top_k": -2}, {"min_p": 2}, {"repetition_penalty": 0}, {"seed": "x"}, {"stop_token_ids": [-1]},
    {"logit_bias": {"x": 1}}, {"min_tokens": -1}, {"priority": 1.5}, {"cache_salt": ""}, {"timeout": 0},
    {"thinking_token_budget": -1}, {"request_id": "a b"}, {"guided_json": "{oops"}, {"guided_choice": []},
    {"guided_regex": "(a"}, {"guided_grammar": "x"}, {"grammar": 7}, {"structured_outputs": {"structural_tag": "x"}},
    {"skip_special_tokens": False}, {"bad_words": ["a"]}, {"allowed_token_ids": [1]}, {"logits_processors": ["a"]},
    {"guided_decoding_backend": "x"}, {"length_penalty": 2}, {"vllm_xargs": {"a": 1}},
], ids=lambda fields: next(iter(fields)))
def test_what_no_api_can_honour_is_refused_by_name(server, api, fields):
    assert next(iter(fields)) in refused(server, api, fields)


@pytest.mark.parametrize("api", APIS)
def test_the_field_names_the_request(server, api):
    path, body = APIS[api]({"request_id": f"mine-{api}"})
    assert server.post(path, body).headers["x-request-id"] == f"mine-{api}"


def test_a_text_that_thinks_is_held_to_the_budget(server):
    """A prompt of one's own that opens thoughts, as the chat template does."""
    end = server.post("/tokenize", {"prompt": "</think>"}).json()["tokens"]
    assert len(end) == 1
    for fields, closed in (({"thinking_token_budget": 2}, True), ({}, False)):
        path, body = completion({"prompt": "<|user|>Hi<|assistant|><think>", "ignore_eos": True, "return_token_ids": True,
                                 "logit_bias": {str(end[0]): -100}, **fields})
        choice = server.post(path, body).json()["choices"][0]
        assert (end[0] in choice["token_ids"][2:6]) == closed, choice
