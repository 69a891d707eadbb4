"""The official openai client against the Responses API: sync, async, streamed and not."""

import asyncio
import json

import openai
import pytest

ASK = {"model": "quern-tiny", "max_output_tokens": 200, "input": "What is 12 plus 30?", "temperature": 0}

WEATHER = {"type": "function", "name": "get_weather", "description": "The weather of a city.", "strict": None,
           "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}


@pytest.fixture
def client(base_url):
    with openai.OpenAI(base_url=base_url + "/v1", api_key="none", max_retries=0) as made:
        yield made


def items_of(response):
    return [item.model_dump(exclude={"id"}) for item in response.output]


def test_response(client):
    response = client.responses.create(**ASK)
    assert response.object == "response" and response.id.startswith("resp_")
    assert response.status in ("completed", "incomplete")
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    assert {item.type for item in response.output} <= {"reasoning", "message"}
    chat = client.chat.completions.create(model="quern-tiny", temperature=0, max_tokens=200,
                                          messages=[{"role": "user", "content": ASK["input"]}])
    assert response.output_text == (chat.choices[0].message.content or "")


def test_stream(client):
    whole = client.responses.create(**ASK)
    with client.responses.stream(**ASK) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert [item.type for item in final.output] == [item.type for item in whole.output]
    assert final.output_text == whole.output_text
    assert final.usage.output_tokens == whole.usage.output_tokens
    assert events[0].type == "response.created"
    raw = list(client.responses.create(**ASK, stream=True))
    assert [event.sequence_number for event in raw] == list(range(len(raw)))
    assert raw[-1].type == "response." + whole.status
    assert items_of(raw[-1].response) == items_of(whole)
    text = "".join(event.delta for event in raw if event.type == "response.output_text.delta")
    assert text == whole.output_text


def run_async(base_url, work):
    """What `work`, a coroutine function that takes an async client, returns."""
    async def run():
        async with openai.AsyncOpenAI(base_url=base_url + "/v1", api_key="none", max_retries=0) as made:
            return await work(made)

    return asyncio.run(run())


def test_async(client, base_url):
    async def ask(made):
        whole = await made.responses.create(**ASK)
        events = [event async for event in await made.responses.create(**ASK, stream=True)]
        async with made.responses.stream(**ASK) as stream:
            return whole, events, await stream.get_final_response()

    whole, events, final = run_async(base_url, ask)
    assert items_of(whole) == items_of(events[-1].response) == items_of(client.responses.create(**ASK))
    assert final.output_text == whole.output_text


def test_a_conversation_goes_on(client):
    first = client.responses.create(**ASK)
    turns = [{"role": "user", "content": ASK["input"]}, *first.output, {"role": "user", "content": "And 2?"}]
    second = client.responses.create(**{**ASK, "input": turns})
    assert second.usage.input_tokens > first.usage.input_tokens + first.usage.output_tokens


def test_a_kept_conversation_goes_on(client):
    first = client.responses.create(**ASK)
    assert client.responses.retrieve(first.id) == first
    second = client.responses.create(**{**ASK, "input": "And 2?"}, previous_response_id=first.id)
    turns = [{"role": "user", "content": ASK["input"]}, *first.output, {"role": "user", "content": "And 2?"}]
    whole = client.responses.create(**{**ASK, "input": turns}, store=False)
    assert second.usage.input_tokens == whole.usage.input_tokens and second.output_text == whole.output_text
    with client.responses.stream(**{**ASK, "input": "And 3?"}, previous_response_id=second.id) as stream:
        third = stream.get_final_response()
    items = list(client.responses.input_items.list(third.id, order="asc", limit=2))  # page by page
    said = [part.text for item in items if item.type == "message" and item.role == "user" for part in item.content]
    assert said == [ASK["input"], "And 2?", "And 3?"]
    assert [item.id for item in items if item.id in {made.id for made in first.output}]
    client.responses.delete(first.id)
    for use in (lambda: client.responses.retrieve(first.id), lambda: client.responses.retrieve(whole.id),
                lambda: client.responses.create(**ASK, previous_response_id=first.id)):
        with pytest.raises(openai.NotFoundError, match="is not here"):
            use()
    with pytest.raises(openai.BadRequestError, match="background"):
        client.responses.cancel(third.id)


def test_a_kept_conversation_async(client, base_url):
    first = client.responses.create(**ASK)

    async def ask(made):
        second = await made.responses.create(**{**ASK, "input": "And 2?"}, previous_response_id=first.id)
        items = [item async for item in made.responses.input_items.list(second.id, limit=1)]
        kept = await made.responses.retrieve(second.id)
        await made.responses.delete(second.id)
        return second, items, kept

    second, items, kept = run_async(base_url, ask)
    assert kept == second and len(items) == 2 + len(first.output)
    assert [item.id for item in items[1:-1]] == [item.id for item in reversed(first.output)]


def calls_of(response):
    return [item for item in response.output if item.type == "function_call"]


def test_a_tool_loop(client):
    def streamed(**fields):
        with client.responses.stream(**fields) as stream:
            return stream.get_final_response()

    turns = [{"role": "user", "content": "What is the weather in Oslo?"}]
    for create in (client.responses.create, streamed):
        first = create(**{**ASK, "input": turns}, tools=[WEATHER])
        (call,) = calls_of(first)
        assert call.name == "get_weather" and json.loads(call.arguments) == {"city": "Oslo"}
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
        second = create(**{**ASK, "input": [*turns, *first.output, result]}, tools=[WEATHER])
        assert not calls_of(second) and second.output_text
        kept = create(**{**ASK, "input": [result]}, tools=[WEATHER], previous_response_id=first.id)
        assert kept.output_text == second.output_text


def test_a_tool_call_async(client, base_url):
    fields = {**ASK, "input": "What is the weather in Oslo?", "tools": [WEATHER]}

    async def ask(made):
        whole = await made.responses.create(**fields)
        return whole, [event async for event in await made.responses.create(**fields, stream=True)]

    whole, events = run_async(base_url, ask)
    (call,) = calls_of(whole)
    pieces = [event.delta for event in events if event.type == "response.function_call_arguments.delta"]
    assert "".join(pieces) == call.arguments == calls_of(client.responses.create(**fields))[0].arguments


def test_errors(client, base_url):
    with pytest.raises(openai.BadRequestError, match="temperature"):
        client.responses.create(**{**ASK, "temperature": 3})
    with pytest.raises(openai.NotFoundError, match="other"):
        client.responses.create(**{**ASK, "model": "other"})
    with pytest.raises(openai.NotFoundError, match="previous_response_id"):
        client.responses.create(**ASK, previous_response_id="resp_x")

    async def ask(made):
        for streamed in (False, True):
            with pytest.raises(openai.BadRequestError, match="temperature"):
                await made.responses.create(**{**ASK, "temperature": 3}, stream=streamed)

    run_async(base_url, ask)
