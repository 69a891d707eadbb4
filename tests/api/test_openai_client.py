"""The official openai client against models, chat completions and completions: sync, async, streamed and not."""

import asyncio
import json
from typing import Literal

import openai
import pydantic
import pytest

MODEL = "quern-tiny"
QUESTION = [{"role": "user", "content": "What is 12 plus 30?"}]
ASK = {"model": MODEL, "messages": QUESTION, "max_tokens": 200, "temperature": 0}
WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a city.", "strict": True,
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}, "required": ["city"],
                   "additionalProperties": False}}}
TEXT = {"model": MODEL, "prompt": "The colour of", "max_tokens": 8, "temperature": 0}


class Thing(pydantic.BaseModel):
    model_config = {"extra": "forbid"}
    kind: Literal["tool", "toy"]
    weight: int
    tags: list[Literal["red", "blue"]] = pydantic.Field(max_length=2)


@pytest.fixture
def client(base_url):
    with openai.OpenAI(base_url=base_url + "/v1", api_key="none", max_retries=0) as made:
        yield made


def run_async(base_url, work):
    """What `work`, a coroutine function that takes an async client, returns."""
    async def run():
        async with openai.AsyncOpenAI(base_url=base_url + "/v1", api_key="none", max_retries=0) as made:
            return await work(made)

    return asyncio.run(run())


def told(completion):
    """What an answer says, without what is another each time."""
    return [choice.model_dump(exclude_none=True) for choice in completion.choices]


def put_together(chunks):
    """Text, reasoning, calls and finish reason of the only choice of a stream."""
    text, reasoning, calls, finish = "", "", [], None
    for chunk in chunks:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            reasoning += getattr(choice.delta, "reasoning_content", None) or ""
            finish = choice.finish_reason or finish
            for call in choice.delta.tool_calls or []:
                if call.index == len(calls):
                    assert call.id and call.function.name
                    calls.append([call.function.name, ""])
                calls[call.index][1] += call.function.arguments or ""
    return text, reasoning, calls, finish


def parts_of(completion):
    message = completion.choices[0].message
    calls = [[call.function.name, call.function.arguments] for call in message.tool_calls or []]
    return message.content or "", message.reasoning_content or "", calls, completion.choices[0].finish_reason


def test_models(client, base_url):
    (model,) = client.models.list()
    assert model.id == MODEL and model.object == "model" and model.max_model_len > 0
    assert client.models.retrieve(MODEL) == model
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")

    async def ask(made):
        return [each async for each in made.models.list()], await made.models.retrieve(MODEL)

    assert run_async(base_url, ask) == ([model], model)


def test_chat(client):
    completion = client.chat.completions.create(**ASK, logprobs=True, top_logprobs=2)
    assert completion.id == "chatcmpl-" + completion._request_id
    (choice,) = completion.choices
    assert choice.message.role == "assistant" and choice.finish_reason in ("stop", "length")
    assert len(choice.logprobs.content) == completion.usage.completion_tokens > 0
    assert all(len(entry.top_logprobs) == 2 for entry in choice.logprobs.content)
    usage = completion.usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


def test_chat_stream(client):
    whole = client.chat.completions.create(**ASK)
    chunks = list(client.chat.completions.create(**ASK, stream=True, stream_options={"include_usage": True}))
    assert put_together(chunks) == parts_of(whole)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    with client.chat.completions.stream(**ASK) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion()
    assert "content.delta" in kinds and kinds[-1] == "content.done"
    assert final.choices[0].message.content == whole.choices[0].message.content


def test_chat_async(client, base_url):
    async def ask(made):
        whole = await made.chat.completions.create(**ASK)
        return whole, [chunk async for chunk in await made.chat.completions.create(**ASK, stream=True)]

    whole, chunks = run_async(base_url, ask)
    assert told(whole) == told(client.chat.completions.create(**ASK))
    assert put_together(chunks) == parts_of(whole)


def test_many_at_once(base_url):
    """An agent's usual way: several requests of one client at the same time."""
    async def ask(made):
        bodies = [{**ASK, "max_tokens": 24, "temperature": 1, "seed": seed} for seed in range(6)]
        together = await asyncio.gather(*(made.chat.completions.create(**body) for body in bodies))
        alone = [await made.chat.completions.create(**body) for body in bodies]
        return [told(each) for each in together], [told(each) for each in alone]

    together, alone = run_async(base_url, ask)
    assert together == alone


def test_a_conversation_goes_on(client):
    first = client.chat.completions.create(**ASK)
    turns = [*QUESTION, first.choices[0].message, {"role": "user", "content": "And 2?"}]
    second = client.chat.completions.create(**{**ASK, "messages": turns})
    assert second.usage.prompt_tokens > first.usage.prompt_tokens


def run_tool_loop(ask, choose):
    """Asks, answers each call with rain, and asks again with what was said until the model calls no more."""
    turns, calls = [{"role": "user", "content": "What is the weather in Oslo?"}], []
    for turn in range(4):
        message, finish = ask({**ASK, "messages": turns, "tools": [WEATHER], **(choose if turn == 0 else {})})
        if not message.tool_calls:
            assert finish == "stop" and message.content
            return calls
        assert finish == "tool_calls"
        turns.append(message)
        for call in message.tool_calls:
            calls.append((call.function.name, json.loads(call.function.arguments)))
            turns.append({"role": "tool", "tool_call_id": call.id, "content": "rain"})
    return pytest.fail(f"the model goes on calling: {calls}")


@pytest.mark.parametrize("choice", ["auto", "required", {"type": "function", "function": {"name": "get_weather"}}])
def test_a_tool_loop(client, choice):
    def whole(fields):
        said = client.chat.completions.create(**fields).choices[0]
        return said.message, said.finish_reason

    def streamed(fields):
        with client.chat.completions.stream(**fields) as stream:
            said = stream.get_final_completion().choices[0]
        return said.message, said.finish_reason

    choose = {"tool_choice": choice, "extra_body": {"thinking_token_budget": 64}}
    calls = run_tool_loop(whole, choose)
    assert calls and all(name == "get_weather" and set(arguments) == {"city"} for name, arguments in calls)
    assert run_tool_loop(streamed, choose) == calls


def test_a_tool_loop_async(base_url):
    fields = {**ASK, "messages": [{"role": "user", "content": "What is the weather in Oslo?"}], "tools": [WEATHER]}

    async def ask(made):
        whole = await made.chat.completions.create(**fields)
        return whole, [chunk async for chunk in await made.chat.completions.create(**fields, stream=True)]

    whole, chunks = run_async(base_url, ask)
    assert parts_of(whole)[2:] == ([["get_weather", whole.choices[0].message.tool_calls[0].function.arguments]],
                                   "tool_calls")
    assert put_together(chunks) == parts_of(whole)


def test_parsed_answers(client, base_url):
    """The client makes the schema from a class, and the object from the answer."""
    fields = {**ASK, "temperature": 1, "seed": 3, "response_format": Thing, "max_tokens": 300,
              "extra_body": {"thinking_token_budget": 32}}
    thing = client.chat.completions.parse(**fields).choices[0].message.parsed
    assert isinstance(thing, Thing)
    with client.chat.completions.stream(**fields) as stream:
        assert stream.get_final_completion().choices[0].message.parsed == thing

    async def ask(made):
        return await made.chat.completions.parse(**fields)

    assert run_async(base_url, ask).choices[0].message.parsed == thing


def test_completions(client, base_url):
    whole = client.completions.create(**TEXT, logprobs=2)
    assert whole.id == "cmpl-" + whole._request_id and whole.object == "text_completion"
    assert len(whole.choices[0].logprobs.tokens) == whole.usage.completion_tokens > 0
    chunks = list(client.completions.create(**TEXT, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text
    assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason
    both = client.completions.create(**{**TEXT, "prompt": [TEXT["prompt"], "Once"]}, echo=True)
    assert both.choices[0].text == TEXT["prompt"] + whole.choices[0].text and both.choices[1].text.startswith("Once")

    async def ask(made):
        stream = await made.completions.create(**TEXT, stream=True)
        return await made.completions.create(**TEXT), [chunk async for chunk in stream]

    plain, pieces = run_async(base_url, ask)
    assert plain.choices[0].text == "".join(each.choices[0].text for each in pieces) == whole.choices[0].text


def test_errors(client, base_url):
    for create, fields in ((client.chat.completions.create, ASK), (client.completions.create, TEXT)):
        for streamed in (False, True):
            with pytest.raises(openai.BadRequestError, match="temperature") as caught:
                create(**{**fields, "temperature": 3}, stream=streamed)
            assert caught.value.param == "temperature" and caught.value.type == "invalid_request_error"
            with pytest.raises(openai.NotFoundError, match="other") as caught:
                create(**{**fields, "model": "other"}, stream=streamed)
            assert caught.value.code == "model_not_found"

    async def ask(made):
        with pytest.raises(openai.BadRequestError, match="temperature"):
            await made.chat.completions.create(**{**ASK, "temperature": 3}, stream=True)

    run_async(base_url, ask)


def test_keys_and_rate_limits(start_server):
    server = start_server("--api-key", "secret", "--rate-limit", "1")
    with openai.OpenAI(base_url=server.base_url + "/v1", api_key="wrong", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError):
            client.models.list()
    with openai.OpenAI(base_url=server.base_url + "/v1", api_key="secret", max_retries=0) as client:
        assert client.models.list().data
        with pytest.raises(openai.RateLimitError) as caught:
            client.chat.completions.create(**ASK)
        assert int(caught.value.response.headers["retry-after"]) > 0
