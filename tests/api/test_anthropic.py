"""Anthropic's Messages API: what a client gets, streamed and not."""

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
