"""Anthropic's Messages API: what a client gets, streamed and not."""

import json

from chat_client import named_events

MESSAGES = "/v1/messages"
COUNT = "/v1/messages/count_tokens"

TOOL = {"name": "get_weather", "description": "The weather of a city.",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}


def ask(text="What is 12 plus 30?", **fields):
    return {"model": "quern-tiny", "max_tokens": 48, "messages": [{"role": "user", "content": text}], **fields}


def count(server, body):
    response = server.post(COUNT, body)
    assert response.status == 200, response.body
    assert set(response.json()) == {"input_tokens"}
    return response.json()["input_tokens"]


def error_of(response):
    body = response.json()
    assert set(body) == {"type", "error"} and body["type"] == "error"
    assert set(body["error"]) == {"type", "message"}
    return body["error"]


def answer(server, body):
    response = server.post(MESSAGES, body)
    assert response.status == 200, response.body
    return response.json()


def stream(server, body):
    """The events of a streamed answer, pings left out."""
    events = named_events(server, MESSAGES, body)
    assert events[1] == {"type": "ping"}
    return [event for event in events if event["type"] != "ping"]


def joined(events):
    """The message that a client puts together."""
    assert events[0]["type"] == "message_start"
    assert events[-1] == {"type": "message_stop"}
    message = events[0]["message"]
    assert message["content"] == [] and message["stop_reason"] is None
    is_open = False
    for event in events[1:-1]:
        if event["type"] == "content_block_start":
            assert not is_open and event["index"] == len(message["content"])
            message["content"].append(event["content_block"])
            is_open, arguments = True, ""
        elif event["type"] == "content_block_delta":
            assert is_open and event["index"] == len(message["content"]) - 1
            delta, block = event["delta"], message["content"][-1]
            if delta["type"] == "input_json_delta":
                arguments += delta["partial_json"]
                continue
            name = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}[delta["type"]]
            block[name] += delta[name]
        elif event["type"] == "content_block_stop":
            assert is_open
            is_open = False
            if message["content"][-1]["type"] == "tool_use":
                assert message["content"][-1]["input"] == {}
                message["content"][-1]["input"] = json.loads(arguments)
        else:
            assert event["type"] == "message_delta" and not is_open
            message.update(event["delta"], usage=event["usage"])
    return message


def without_id(message):
    return {name: value for name, value in message.items() if name != "id"}


def chat_tokens(server, messages, **fields):
    body = {"messages": messages, "max_tokens": 1, **fields}
    return server.post("/v1/chat/completions", body).json()["usage"]["prompt_tokens"]


def test_counts_are_those_of_the_prompt(server):
    user = {"role": "user", "content": "What is 12 plus 30?"}
    assert count(server, ask()) == chat_tokens(server, [user])
    system = {"role": "system", "content": "Be brief."}
    assert count(server, ask(system="Be brief.")) == chat_tokens(server, [system, user])
    blocks = [{"type": "text", "text": "Be ", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "brief."}]
    assert count(server, ask(system=blocks)) == chat_tokens(server, [system, user])
    assert count(server, {"messages": [user]}) == count(server, ask())  # no max_tokens
    assert count(server, ask(output_config={"effort": "low"})) == chat_tokens(server, [user], reasoning_effort="low")


def test_history_renders_as_that_of_chat_completions(server):
    call = {"id": "t1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}
    chat = [{"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": "I look.", "reasoning_content": "A city.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "t1", "content": "rain"},
            {"role": "user", "content": "And now?"}]
    messages = [{"role": "user", "content": "Weather?"},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "A city.", "signature": "x"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "t1", "name": "get_weather", "input": {"city": "Oslo"}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "rain"},
                                             {"type": "text", "text": "And now?"}]}]
    assert count(server, ask(messages=messages)) == chat_tokens(server, chat)


def test_tools_are_shown_to_the_model(server):
    plain = count(server, ask())
    shown = count(server, ask(tools=[TOOL]))
    assert shown > plain + 20
    assert count(server, ask(tools=[TOOL], tool_choice={"type": "none"})) == plain
    assert count(server, ask(tools=[TOOL], tool_choice={"type": "any"})) == shown


def test_errors_have_anthropics_shape(server):
    response = server.post(COUNT, ask(messages=[{"role": "system", "content": "x"}]))
    assert response.status == 400
    error = error_of(response)
    assert error["type"] == "invalid_request_error" and "messages[0].role" in error["message"]
    response = server.post(COUNT, ask(model="other"))
    assert response.status == 404
    assert error_of(response)["type"] == "not_found_error"
    response = server.post(COUNT, b"{")
    assert response.status == 400
    assert error_of(response)["type"] == "invalid_request_error"


def test_errors_before_a_handler_have_anthropics_shape(server):
    response = server.get(COUNT)
    assert response.status == 405
    assert error_of(response)["type"] == "invalid_request_error"
    response = server.post("/v1/messages/batches", {})
    assert response.status == 404
    assert error_of(response)["type"] == "not_found_error"


def test_keys(start_server):
    server = start_server("--api-key", "secret")
    response = server.post(COUNT, ask())
    assert response.status == 401
    assert error_of(response)["type"] == "authentication_error"
    response = server.post(COUNT, ask(), headers={"x-api-key": "secret"})
    assert response.status == 200


def test_message_has_anthropics_shape(server):
    message = answer(server, ask(temperature=0, max_tokens=200))
    assert set(message) == {"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"}
    assert message["id"].startswith("msg_")
    assert (message["type"], message["role"], message["model"]) == ("message", "assistant", "quern-tiny")
    assert message["stop_reason"] in ("end_turn", "max_tokens") and message["stop_sequence"] is None
    assert message["usage"]["input_tokens"] == count(server, ask())
    assert message["usage"]["output_tokens"] > 0
    assert all(block["type"] in ("thinking", "text") for block in message["content"])


def test_message_says_what_chat_completions_says(server):
    fields = {"temperature": 0, "max_tokens": 200}
    message = answer(server, ask(**fields))
    chat = server.post("/v1/chat/completions", {**ask(), **fields}).json()
    said = chat["choices"][0]["message"]
    blocks = {block["type"]: block.get("text") or block.get("thinking") for block in message["content"]}
    assert blocks.get("text", "") == (said["content"] or "")
    assert blocks.get("thinking", "") == (said["reasoning"] or "")
    assert message["usage"]["output_tokens"] == chat["usage"]["completion_tokens"]


def test_stream_equals_the_whole(server):
    for fields in ({"temperature": 0, "max_tokens": 200}, {"temperature": 1, "seed": 7}, {"max_tokens": 1, "seed": 1}):
        whole = answer(server, ask(**fields))
        assert without_id(joined(stream(server, ask(**fields)))) == without_id(whole)


def test_stop_sequences(server):
    plain = answer(server, ask(temperature=0))
    text = "".join(block.get("thinking") or block.get("text") for block in plain["content"])
    stop = text[2:4]
    message = answer(server, ask(temperature=0, stop_sequences=["\x01never", stop]))
    assert (message["stop_reason"], message["stop_sequence"]) == ("stop_sequence", stop)
    assert message["content"] and all(stop not in (block.get("text") or block["thinking"])
                                      for block in message["content"])
    assert without_id(joined(stream(server, ask(temperature=0, stop_sequences=[stop])))) == without_id(message)


def test_prefill(server):
    user = {"role": "user", "content": "What is 12 plus 30?"}
    turns = [user, {"role": "assistant", "content": "The answer is"}]
    message = answer(server, ask(messages=turns, temperature=0))
    chat = server.post("/v1/chat/completions", {"messages": turns, "temperature": 0, "max_tokens": 48,
                                                "continue_final_message": True, "add_generation_prompt": False}).json()
    assert message["content"][-1]["text"] == chat["choices"][0]["message"]["content"]
    assert message["usage"]["input_tokens"] == chat["usage"]["prompt_tokens"] == count(server, ask(messages=turns))


def test_hidden_thoughts(server):
    shown = answer(server, ask(temperature=0, thinking={"type": "adaptive"}))
    hidden = answer(server, ask(temperature=0, thinking={"type": "adaptive", "display": "omitted"}))
    assert any(block.get("thinking") for block in shown["content"])
    assert not any(block.get("thinking") for block in hidden["content"])
    assert [block["type"] for block in hidden["content"]] == [block["type"] for block in shown["content"]]


def test_more_tokens_than_the_context_has_left(start_server):
    server = start_server("--max-model-len", 64)
    message = answer(server, ask(max_tokens=10**6, ignore_eos=True))
    assert message["stop_reason"] == "model_context_window_exceeded"
    assert message["usage"]["input_tokens"] + message["usage"]["output_tokens"] == 64
    response = server.post(MESSAGES, ask("long " * 100))
    assert response.status == 400
    error = error_of(response)
    assert error["type"] == "invalid_request_error" and error["message"].startswith("prompt is too long: ")


def test_cached_tokens_are_told_apart(start_server):
    server = start_server("--enable-prompt-tokens-details", "--block-size", 16)
    body = ask("What is 12 plus 30? " * 20, temperature=0)
    first, second = answer(server, body)["usage"], answer(server, body)["usage"]
    assert first["cache_read_input_tokens"] == 0
    assert second["cache_read_input_tokens"] > 0
    assert first["input_tokens"] == second["input_tokens"] + second["cache_read_input_tokens"]


def test_refusals(server):
    for body, word in ((ask(tools=[{"type": "web_search_20250305", "name": "web_search"}]), "web_search"),
                       (ask(max_tokens=0), "max_tokens"), (ask(temperature=1.5), "temperature"),
                       (ask(messages=[{"role": "assistant", "content": ""}]), "no text"),
                       (ask(tools=[TOOL], tool_choice={"type": "tool", "name": "g"}), "none of the tools"),
                       (ask(tools=[{"name": "f", "input_schema": {"type": "string"}}]), "tools[0].input_schema: type"),
                       (ask(tools=[{"name": "f", "strict": True, "input_schema": {"properties": {"a": {"enum": []}},
                                                                                  "required": ["a"]}}]),
                        "tools[0].input_schema: /properties/a"),
                       (ask(output_config={"format": {"type": "json_schema", "schema": {"type": "objekt"}}}), "/type")):
        for streamed in (False, True):
            response = server.post(MESSAGES, {**body, "stream": streamed})
            assert response.status == 400, response.body
            error = error_of(response)
            assert error["type"] == "invalid_request_error" and word in error["message"]


def test_fields_without_effect_are_told_once(start_server):
    server = start_server()
    for _ in range(2):
        answer(server, ask(max_tokens=2000, ignore_eos=False, mood="good", thinking={"type": "disabled"}))
    log = server.stderr_text()
    assert log.count("request: mood: ") == 1
    assert log.count("enable_thinking") == 1


def without_call_ids(message):
    blocks = [{name: value for name, value in block.items() if name != "id"} for block in message["content"]]
    return {**without_id(message), "content": blocks}


def test_tool_use(server):
    body = ask("What is the weather in Oslo?", tools=[TOOL], temperature=0, max_tokens=200)
    message = answer(server, body)
    assert message["stop_reason"] == "tool_use"
    (call,) = [block for block in message["content"] if block["type"] == "tool_use"]
    assert call["id"].startswith("toolu_")
    assert (call["name"], call["input"]) == ("get_weather", {"city": "Oslo"})
    assert without_call_ids(joined(stream(server, body))) == without_call_ids(message)
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": "rain"}
    turns = [*body["messages"], {"role": "assistant", "content": message["content"]},
             {"role": "user", "content": [result]}]
    assert answer(server, {**body, "messages": turns})["stop_reason"] == "end_turn"


def test_a_call_that_was_cut(server):
    body = ask("What is the weather in Oslo?", tools=[TOOL], temperature=0)
    whole = answer(server, {**body, "max_tokens": 200})["usage"]["output_tokens"]
    message = answer(server, {**body, "max_tokens": whole - 3})
    assert message["stop_reason"] == "max_tokens"
    assert not [block for block in message["content"] if block["type"] == "tool_use"]


def test_no_calls_with_tool_choice_none(server):
    body = ask("What is the weather in Oslo?", tools=[TOOL], tool_choice={"type": "none"}, temperature=0)
    assert answer(server, body)["stop_reason"] != "tool_use"


def test_demanded_calls(server):
    tools = [TOOL, {"name": "get_time", "input_schema": {"type": "object", "properties": {}}}]
    choices = [({"type": "any"}, ("get_weather", "get_time")), ({"type": "tool", "name": "get_time"}, ("get_time",))]
    for choice, names in choices:
        for seed in range(4):
            body = ask("Tell me a story.", tools=tools, tool_choice=choice, seed=seed, temperature=1, max_tokens=400,
                       thinking_token_budget=64)
            message = answer(server, body)
            assert message["stop_reason"] == "tool_use"
            (call,) = [block for block in message["content"] if block["type"] != "thinking"]
            assert call["type"] == "tool_use" and call["name"] in names
            assert set(call["input"]) == ({"city"} if call["name"] == "get_weather" else set())
            assert without_call_ids(joined(stream(server, body))) == without_call_ids(message)


def test_structured_output(server):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
    for fields in ({"output_config": {"format": {"type": "json_schema", "schema": schema}}},
                   {"output_format": {"type": "json_schema", "schema": schema}}):
        for seed in range(3):
            message = answer(server, ask("Hi", seed=seed, max_tokens=200, thinking_token_budget=16, **fields))
            text = "".join(block["text"] for block in message["content"] if block["type"] == "text")
            assert message["stop_reason"] == "max_tokens" or type(json.loads(text)["n"]) is int
