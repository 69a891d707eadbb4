"""OpenAI's Responses API: what a client gets, streamed and not."""

import json

from chat_client import named_events

RESPONSES = "/v1/responses"


def ask(given="What is 12 plus 30?", **fields):
    return {"model": "quern-tiny", "max_output_tokens": 48, "input": given, **fields}


def answer(server, body):
    response = server.post(RESPONSES, body)
    assert response.status == 200, response.body
    return response.json()


def stream(server, body):
    """The events of a streamed response, each with its number."""
    events = named_events(server, RESPONSES, body)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events


def input_tokens(server, body):
    return answer(server, {**body, "max_output_tokens": 1})["usage"]["input_tokens"]


def chat_tokens(server, messages, **fields):
    body = {"messages": messages, "max_tokens": 1, **fields}
    return server.post("/v1/chat/completions", body).json()["usage"]["prompt_tokens"]


def what_it_says(response):
    """All but ids and times."""
    items = [{name: value for name, value in item.items() if name != "id"} for item in response["output"]]
    return response["status"], response["incomplete_details"], items, response["usage"]


def test_response_has_openais_shape(server):
    response = answer(server, ask(temperature=0, max_output_tokens=200, metadata={"k": "v"}, instructions="Be brief."))
    assert response["object"] == "response" and response["id"].startswith("resp_")
    assert response["status"] in ("completed", "incomplete") and response["error"] is None
    assert response["metadata"] == {"k": "v"} and response["instructions"] == "Be brief."
    assert response["model"] == "quern-tiny" and response["max_output_tokens"] == 200
    usage = response["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    kinds = [item["type"] for item in response["output"]]
    assert kinds and set(kinds) <= {"reasoning", "message"}


def test_response_says_what_chat_completions_says(server):
    response = answer(server, ask(temperature=0, max_output_tokens=200))
    body = {"messages": [{"role": "user", "content": "What is 12 plus 30?"}], "temperature": 0, "max_tokens": 200}
    chat = server.post("/v1/chat/completions", body).json()
    said = chat["choices"][0]["message"]
    texts = {item["type"]: item["content"][0]["text"] for item in response["output"]}
    assert texts.get("message", "") == (said["content"] or "")
    assert texts.get("reasoning", "") == (said["reasoning"] or "")
    assert response["usage"]["output_tokens"] == chat["usage"]["completion_tokens"]


def test_stream_equals_the_whole(server):
    for fields in ({"temperature": 0, "max_output_tokens": 200}, {"temperature": 1, "seed": 7},
                   {"max_output_tokens": 1, "seed": 1}):
        whole = answer(server, ask(**fields))
        events = stream(server, ask(**fields))
        assert what_it_says(events[-1]["response"]) == what_it_says(whole)
        assert events[-1]["type"] == "response." + whole["status"]
        assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
        assert events[0]["response"]["status"] == "in_progress" and events[0]["response"]["usage"] is None
        done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
        assert done == events[-1]["response"]["output"]
        for kind in ("output_text", "reasoning_text"):
            deltas = "".join(event["delta"] for event in events if event["type"] == f"response.{kind}.delta")
            assert deltas == "".join(event["text"] for event in events if event["type"] == f"response.{kind}.done")
            assert deltas == "".join(part["text"] for item in whole["output"] for part in item["content"]
                                     if part["type"] == kind)


def test_items_open_and_close_in_order(server):
    open_item = None
    for event in stream(server, ask(temperature=0, max_output_tokens=200))[2:-1]:
        if event["type"] == "response.output_item.added":
            assert open_item is None and event["item"]["content"] == []
            open_item = (event["item"]["id"], event["output_index"])
        elif event["type"] == "response.output_item.done":
            assert (event["item"]["id"], event["output_index"]) == open_item
            open_item = None
        else:
            assert (event["item_id"], event["output_index"]) == open_item and event["content_index"] == 0
    assert open_item is None


def test_input_renders_as_that_of_chat_completions(server):
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"city": "Oslo"}'}}
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": "I look.", "reasoning_content": "A city.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "rain"}, {"role": "user", "content": "And now?"}]
    items = [{"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
             {"type": "reasoning", "id": "rs_1", "summary": [],
              "content": [{"type": "reasoning_text", "text": "A city."}]},
             {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
             {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"city": "Oslo"}'},
             {"type": "function_call_output", "call_id": "c1", "output": "rain"},
             {"type": "message", "role": "user", "content": "And now?"}]
    assert input_tokens(server, ask(items, instructions="Be brief.")) == chat_tokens(server, chat)
    assert (input_tokens(server, ask("Hi", reasoning={"effort": "minimal"})) ==
            chat_tokens(server, [{"role": "user", "content": "Hi"}], reasoning_effort="low"))


def test_limits_and_stops(server):
    response = answer(server, ask(max_output_tokens=5, ignore_eos=True))
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["usage"]["output_tokens"] == 5
    assert response["output"][-1]["status"] == "incomplete"


def test_refusals(server):
    for body, status, param in (
            (ask(tools=[{"type": "web_search"}]), 400, "tools"),
            (ask(tools=[{"type": "function", "name": "f", "parameters": {}}],
                 tool_choice={"type": "function", "name": "g"}), 400, "tool_choice"),
            (ask(max_output_tokens=0), 400, "max_output_tokens"), (ask(temperature=3), 400, "temperature"),
            (ask(max_output_tokens=10**6), 400, "max_output_tokens"), (ask([]), 400, "input"),
            (ask(text={"format": {"type": "yaml"}}), 400, "text.format"), (ask(background=True), 400, "background"),
            (ask(reasoning={"effort": "some"}), 400, "reasoning"), (ask(previous_response_id="resp_x"), 404,
                                                                   "previous_response_id"),
            (ask(include=["message.output_text.logprobs"]), 400, "include"), (ask(model="other"), 404, "model"),
            (ask([{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]), 400, "input")):
        for streamed in (False, True):
            response = server.post(RESPONSES, {**body, "stream": streamed})
            assert response.status == status, response.body
            error = response.json()["error"]
            assert set(error) == {"message", "type", "param", "code"} and error["param"] == param


def test_function_calls(server):
    tool = {"type": "function", "name": "get_weather", "description": "The weather of a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}
    body = ask("What is the weather in Oslo?", tools=[tool], temperature=0, max_output_tokens=200)
    response = answer(server, body)
    assert response["status"] == "completed" and response["tools"] == [tool]
    (call,) = [item for item in response["output"] if item["type"] == "function_call"]
    assert call["call_id"].startswith("call_") and call["name"] == "get_weather"
    assert json.loads(call["arguments"]) == {"city": "Oslo"}
    events = stream(server, body)
    deltas = [event["delta"] for event in events if event["type"] == "response.function_call_arguments.delta"]
    assert "".join(deltas) == call["arguments"]
    assert [item["type"] for item in events[-1]["response"]["output"]] == [item["type"] for item in response["output"]]
    turns = [{"role": "user", "content": body["input"]}, *response["output"],
             {"type": "function_call_output", "call_id": call["call_id"], "output": "rain"}]
    assert answer(server, {**body, "input": turns})["output"][-1]["type"] == "message"
    plain = answer(server, {**body, "tool_choice": "none"})
    assert all(item["type"] != "function_call" for item in plain["output"])


def test_demanded_calls(server):
    tools = [{"type": "function", "name": name, "strict": True, "parameters": {
        "type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"], "additionalProperties": False}}
        for name in ("f", "g")]
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]}
    for choice, names in (("required", "fg"), ({"type": "function", "name": "g"}, "g"), (allowed, "f")):
        for seed in range(4):
            body = ask("Tell me a story.", tools=tools, tool_choice=choice, seed=seed, temperature=1,
                       thinking_token_budget=64, max_output_tokens=400)
            response = answer(server, body)
            (call,) = [item for item in response["output"] if item["type"] != "reasoning"]
            assert response["status"] == "completed" and call["type"] == "function_call" and call["name"] in names
            assert json.loads(call["arguments"]) in ({"a": "x"}, {"a": "y"})
            done = stream(server, body)[-1]["response"]["output"][-1]
            assert (done["name"], done["arguments"]) == (call["name"], call["arguments"])


def test_structured_output(server):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
    form = {"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": True}}
    for seed in range(4):
        response = answer(server, ask("Hi", seed=seed, text=form, max_output_tokens=200, thinking_token_budget=16))
        assert response["text"] == form
        if response["status"] == "completed":
            assert type(json.loads(response["output"][-1]["content"][0]["text"])["n"]) is int
