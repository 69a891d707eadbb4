"""Tools in chat completions: calls told apart, demanded, chosen and left alone, streamed or not, with drafts or without."""

import json

import pytest

from chat_client import error_of

PATH = "/v1/chat/completions"
WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a city.",
    "parameters": {"type": "object", "required": ["city"], "additionalProperties": False,
                   "properties": {"city": {"type": "string", "maxLength": 20},
                                  "days": {"type": "integer", "minimum": 1, "maximum": 7},
                                  "unit": {"enum": ["c", "f"]}}}}}
CLOCK = {"type": "function", "function": {"name": "get_time", "description": "The time.", "parameters": {
    "type": "object", "properties": {}}}}
LISTS = {"type": "function", "function": {
    "name": "add_items", "description": "Adds items to a list.",
    "parameters": {"type": "object", "required": ["items", "place"], "additionalProperties": False, "properties": {
        "items": {"type": "array", "items": {"type": "string", "maxLength": 8}, "minItems": 1, "maxItems": 3},
        "place": {"type": "object", "properties": {"x": {"type": "integer", "minimum": 0, "maximum": 99},
                                                   "fixed": {"type": "boolean"}},
                  "required": ["x"], "additionalProperties": False}}}}}
TOOLS = [WEATHER, CLOCK, LISTS]
MARKUP = ("<tool_call>", "</tool_call>", "<arg_key>", "<arg_value>", "</arg_value>", "<think>", "</think>")


def body(content="Tell me a story.", seed=0, **fields):
    return {"model": "quern-tiny", "messages": [{"role": "user", "content": content}], "max_tokens": 512, "temperature": 1,
            "seed": seed, "thinking_token_budget": 128, "tools": TOOLS, **fields}


def answer(server, *args, **fields):
    response = server.post(PATH, body(*args, **fields))
    assert response.status == 200, response.body
    choice = response.json()["choices"][0]
    return choice["message"], choice["finish_reason"]


def streamed(server, *args, **fields):
    """The deltas put together, as a client does."""
    response = server.post(PATH, body(*args, stream=True, **fields))
    assert response.status == 200, response.body
    message, finish = {"content": "", "reasoning": "", "tool_calls": []}, None
    for event in response.events()[:-1]:
        choice = json.loads(event)["choices"][0]
        finish = finish or choice["finish_reason"]
        message["content"] += choice["delta"].get("content") or ""
        message["reasoning"] += choice["delta"].get("reasoning") or ""
        for delta in choice["delta"].get("tool_calls", []):
            if "id" in delta:
                assert delta["index"] == len(message["tool_calls"]) and delta["type"] == "function"
                message["tool_calls"].append({"name": delta["function"]["name"], "arguments": ""})
            else:
                assert "name" not in delta["function"] and delta["index"] == len(message["tool_calls"]) - 1
            message["tool_calls"][-1]["arguments"] += delta["function"]["arguments"]
    return message, finish


def check_arguments(name, arguments):
    """Valid by the schemas above."""
    assert not any(tag in json.dumps(arguments) for tag in MARKUP)
    if name == "get_weather":
        assert set(arguments) <= {"city", "days", "unit"} and "city" in arguments
        assert isinstance(arguments["city"], str) and len(arguments["city"]) <= 20
        assert "days" not in arguments or (type(arguments["days"]) is int and 1 <= arguments["days"] <= 7)
        assert arguments.get("unit", "c") in ("c", "f")
    elif name == "get_time":
        assert not arguments
    else:
        assert name == "add_items" and set(arguments) == {"items", "place"}
        items, place = arguments["items"], arguments["place"]
        assert 1 <= len(items) <= 3 and all(isinstance(i, str) and len(i) <= 8 for i in items)
        assert set(place) <= {"x", "fixed"} and type(place["x"]) is int and 0 <= place["x"] <= 99
        assert isinstance(place.get("fixed", True), bool)


def calls_of(message):
    return [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in message["tool_calls"]]


def check_demanded(message, finish):
    assert finish == "tool_calls", (message, finish)
    assert not message["content"]
    calls = calls_of(message)
    assert len(calls) == 1
    check_arguments(*calls[0])
    return calls[0][0]


@pytest.mark.parametrize("temperature", [0, 1])
def test_required_gives_one_valid_call(server, temperature):
    for seed in range(12 if temperature else 1):
        check_demanded(*answer(server, seed=seed, temperature=temperature, tool_choice="required"))


@pytest.mark.parametrize("name", ["get_weather", "get_time", "add_items"])
def test_a_named_tool_is_called(server, name):
    choices = ({"type": "function", "function": {"name": name}},
               {"type": "allowed_tools", "allowed_tools": {
                   "mode": "required", "tools": [{"type": "function", "function": {"name": name}}]}})
    for choice in choices:
        for seed in range(4):
            assert check_demanded(*answer(server, seed=seed, tool_choice=choice)) == name


def test_the_model_calls_by_itself(server):
    message, finish = answer(server, "What is the weather in Oslo?", temperature=0, tools=[WEATHER])
    assert finish == "tool_calls" and calls_of(message) == [("get_weather", {"city": "Oslo"})]
    assert message["tool_calls"][0]["id"].startswith("call_") and message["tool_calls"][0]["type"] == "function"
    assert message["reasoning"] and message["reasoning_content"] == message["reasoning"]


def test_no_calls_with_none(server):
    for seed in range(4):
        message, finish = answer(server, "What is the weather in Oslo?", seed, tools=[WEATHER], tool_choice="none")
        assert "tool_calls" not in message and finish in ("stop", "length")


def test_auto_is_held_where_the_request_says_so(server):
    strict = json.loads(json.dumps(WEATHER))
    strict["function"]["strict"] = True
    ask = "What is the weather in Oslo?"
    for fields in ({"tools": [strict]}, {"parallel_tool_calls": False, "tools": [WEATHER]},
                   {"response_format": {"type": "json_object"}, "tools": [WEATHER]}):
        called = 0
        for seed in range(4):
            message, finish = answer(server, ask, seed, **fields)
            if finish == "tool_calls":
                called += 1
                assert len(message["tool_calls"]) == 1
                check_arguments(*calls_of(message)[0])
        assert called >= 3


def test_strict_asks_for_no_closed_or_complete_objects(server):
    schema = {"$ref": "#/$defs/Args", "$defs": {
        "Args": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20},
                                                  "unit": {"$ref": "#/$defs/Unit"},
                                                  "days": {"type": "integer", "minimum": 1, "maximum": 7,
                                                           "nullable": True}},
                 "required": ["city"]},
        "Unit": {"enum": ["c", "f"]}}}
    tool = {"type": "function", "function": {"name": "get_weather", "strict": True, "parameters": schema}}
    for seed in range(4):
        message, finish = answer(server, "What is the weather in Oslo?", seed, tools=[tool], tool_choice="required")
        assert finish == "tool_calls"
        arguments = calls_of(message)[0][1]
        assert "city" in arguments and set(arguments) <= {"city", "unit", "days"}
        assert arguments.get("unit", "c") in ("c", "f")
        assert arguments.get("days") is None or 1 <= arguments["days"] <= 7
    form = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": {
        "type": "object", "maxProperties": 1, "properties": {"a": {"type": "boolean"}}}}}
    response = server.post(PATH, body(tools=None, response_format=form))
    assert response.status == 200, response.body


def test_a_stream_tells_the_same(server):
    asks = [("Tell me a story.", {"tool_choice": "required"}), ("What is the weather in Oslo?", {}),
            ("Tell me a story.", {"tool_choice": "required", "parallel_tool_calls": True})]
    for content, fields in asks:
        for seed in range(4):
            whole, finish = answer(server, content, seed, **fields)
            told, told_finish = streamed(server, content, seed, **fields)
            assert told_finish == finish
            assert told["content"] == (whole["content"] or "") and told["reasoning"] == (whole["reasoning"] or "")
            calls = [call["function"] for call in whole.get("tool_calls", [])]
            assert told["tool_calls"] == calls


def test_several_choices_have_calls_of_their_own(server):
    response = server.post(PATH, body(n=3, tool_choice="required"))
    choices = response.json()["choices"]
    ids = {choice["message"]["tool_calls"][0]["id"] for choice in choices}
    assert len(ids) == 3
    for choice in choices:
        check_demanded(choice["message"], choice["finish_reason"])


def test_drafts_change_no_call(start_server):
    plain = start_server()
    drafting = start_server("--speculative-config", '{"method": "mtp", "num_speculative_tokens": 3}')
    for seed in range(6):
        for fields in ({"tool_choice": "required"}, {"tool_choice": "required", "parallel_tool_calls": True, "max_tokens": 120},
                       {"temperature": 0}):
            (one, finish), (other, other_finish) = (answer(s, seed=seed, **fields) for s in (plain, drafting))
            for message in (one, other):
                for call in message.get("tool_calls", []):
                    del call["id"]
            assert (one, finish) == (other, other_finish)


def test_a_call_that_is_cut_ends_as_length(server):
    message, finish = answer(server, tool_choice="required", thinking_token_budget=0, max_tokens=5)
    assert finish == "length"
    for call in message.get("tool_calls", []):
        assert call["id"] and call["function"]["name"]


def test_a_demanded_call_ends_whatever_is_asked_for(server):
    for fields in ({"ignore_eos": True}, {"min_tokens": 400}):
        check_demanded(*answer(server, tool_choice="required", **fields))


def test_a_tool_loop_ends_in_an_answer(server):
    ask = [{"role": "user", "content": "What is the weather in Oslo?"}]
    message, finish = answer(server, temperature=0, tools=[WEATHER], messages=ask)
    assert finish == "tool_calls"
    turns = [*ask, {"role": "assistant", **{k: message[k] for k in ("content", "reasoning_content", "tool_calls")}},
             {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "rain, 3 degrees"}]
    message, finish = answer(server, temperature=0, tools=[WEATHER], messages=turns)
    assert finish == "stop" and message["content"] and "tool_calls" not in message


BAD = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {
    "a": {"type": "string", "minLength": 5, "maxLength": 2}}, "required": ["a"]}}}


def test_errors_about_tools_name_the_place(server):
    many = [{"type": "function", "function": {"name": f"f{i}"}} for i in range(1025)]
    named = {"type": "function", "function": {"name": "a b"}}
    for tools, sentence in ((many, "tools: more than 1024"), ([WEATHER, named], "tools[1].function.name: give 1 to 64"),
                            ([BAD], "tools[0].function.parameters: /properties/a")):
        response = server.post(PATH, body(tools=tools, tool_choice="required"))
        assert response.status == 400
        assert error_of(response)["message"].startswith(sentence), response.body


@pytest.mark.parametrize("param, fields", [
    ("tools", {"tools": {}}), ("tools", {"tools": [5]}), ("tools", {"tools": [{"type": "function"}]}),
    ("tools", {"tools": [{"type": "web_search"}]}), ("tools", {"tools": [WEATHER, WEATHER]}),
    ("tools", {"tools": [{"type": "function", "function": {"name": "a b<"}}]}),
    ("tools", {"tools": [{"type": "function", "function": {"name": "f", "strict": 1}}]}),
    ("tools", {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "objekt"}}}]}),
    ("tools", {"tools": [], "tool_choice": "required"}), ("tools", {"tools": [BAD], "tool_choice": "required"}),
    ("tools", {"tools": [{**BAD, "function": {**BAD["function"], "strict": True}}]}),
    ("tool_choice", {"tool_choice": "sometimes"}), ("tool_choice", {"tool_choice": {}}), ("tool_choice", {"tool_choice": 1}),
    ("tool_choice", {"tool_choice": {"type": "function", "function": {"name": "g"}}}),
    ("tool_choice", {"tool_choice": {"type": "function", "name": "get_weather"}}),
    ("tool_choice", {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}}),
    ("tool_choice", {"tools": None, "tool_choice": "required"}),
    ("parallel_tool_calls", {"parallel_tool_calls": "no"}),
])
def test_what_is_wrong_is_refused_by_name(server, param, fields):
    response = server.post(PATH, body(**fields))
    assert response.status == 400, response.body
    assert error_of(response)["param"] == param
