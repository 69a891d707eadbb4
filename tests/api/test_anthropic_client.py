"""The official anthropic client against the Messages API: sync, async, streamed and not."""

import asyncio

import anthropic
import pytest

ASK = {"model": "quern-tiny", "max_tokens": 48, "messages": [{"role": "user", "content": "What is 12 plus 30?"}],
       "extra_body": {"temperature": 0}}  # newer clients have no argument for it


@pytest.fixture
def client(base_url):
    with anthropic.Anthropic(base_url=base_url, api_key="none", max_retries=0) as made:
        yield made


def run_async(base_url, work):
    """What `work`, a coroutine function that takes an async client, returns."""
    async def run():
        async with anthropic.AsyncAnthropic(base_url=base_url, api_key="none", max_retries=0) as made:
            return await work(made)

    return asyncio.run(run())


def content_of(message):
    return [block.model_dump(exclude_none=True) for block in message.content]


def test_message(client):
    message = client.messages.create(**ASK)
    assert message.type == "message" and message.role == "assistant"
    assert message.stop_reason in ("end_turn", "max_tokens")
    assert message.id == "msg_" + message._request_id
    assert message.usage.input_tokens == client.messages.count_tokens(model="quern-tiny",
                                                                      messages=ASK["messages"]).input_tokens
    assert message.usage.output_tokens > 0
    assert content_of(message)


def test_stream(client):
    whole = client.messages.create(**ASK)
    with client.messages.stream(**ASK) as stream:
        kinds = [event.type for event in stream]
        message = stream.get_final_message()
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop"
    assert content_of(message) == content_of(whole)
    assert message.stop_reason == whole.stop_reason
    assert message.usage.output_tokens == whole.usage.output_tokens
    raw = [event.type for event in client.messages.create(**ASK, stream=True)]
    assert raw[0] == "message_start" and "content_block_delta" in raw and raw[-1] == "message_stop"


def test_async(client, base_url):
    whole = content_of(client.messages.create(**ASK))

    async def ask(made):
        async with made.messages.stream(**ASK) as stream:
            texts = [text async for text in stream.text_stream]
            streamed = await stream.get_final_message()
        counted = await made.messages.count_tokens(model="quern-tiny", messages=ASK["messages"])
        return content_of(await made.messages.create(**ASK)), content_of(streamed), "".join(texts), counted

    plain, streamed, text, counted = run_async(base_url, ask)
    assert plain == streamed == whole
    assert text == "".join(block.get("text", "") for block in whole)
    assert counted.input_tokens > 0


def test_a_conversation_goes_on(client):
    first = client.messages.create(**ASK)
    turns = [*ASK["messages"], {"role": "assistant", "content": first.content}, {"role": "user", "content": "And 2?"}]
    second = client.messages.create(**{**ASK, "messages": turns})
    assert second.usage.input_tokens > first.usage.input_tokens + first.usage.output_tokens


WEATHER = {"name": "get_weather", "description": "The weather of a city.",
           "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}


def test_a_tool_loop(client):
    turns = [{"role": "user", "content": "What is the weather in Oslo?"}]
    for streamed in (False, True):
        fields = {**ASK, "max_tokens": 200, "tools": [WEATHER], "messages": turns}
        if streamed:
            with client.messages.stream(**fields) as stream:
                message = stream.get_final_message()
        else:
            message = client.messages.create(**fields)
        assert message.stop_reason == "tool_use"
        (call,) = [block for block in message.content if block.type == "tool_use"]
        assert call.input == {"city": "Oslo"}
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "rain"}
        after = [*turns, {"role": "assistant", "content": message.content}, {"role": "user", "content": [result]}]
        assert client.messages.create(**{**fields, "messages": after}).stop_reason == "end_turn"


def test_a_tool_call_async(client, base_url):
    fields = {**ASK, "max_tokens": 200, "tools": [WEATHER],
              "messages": [{"role": "user", "content": "What is the weather in Oslo?"}]}

    def calls(message):
        return [(block.name, block.input) for block in message.content if block.type == "tool_use"]

    async def ask(made):
        async with made.messages.stream(**fields) as stream:
            streamed = await stream.get_final_message()
        raw = [event.type async for event in await made.messages.create(**fields, stream=True)]
        return await made.messages.create(**fields), streamed, raw

    whole, streamed, raw = run_async(base_url, ask)
    expected = [("get_weather", {"city": "Oslo"})]
    assert calls(whole) == calls(streamed) == calls(client.messages.create(**fields)) == expected
    assert whole.stop_reason == streamed.stop_reason == "tool_use"
    assert raw[0] == "message_start" and raw[-1] == "message_stop"


def test_counting_counts_what_a_message_is_made_of(client, base_url):
    fields = {"model": "quern-tiny", "messages": ASK["messages"]}
    plain = client.messages.count_tokens(**fields).input_tokens
    more = {**fields, "system": "Be short.", "tools": [WEATHER]}
    counted = client.messages.count_tokens(**more).input_tokens
    assert counted > client.messages.count_tokens(**fields, system="Be short.").input_tokens > plain
    assert client.messages.create(**{**ASK, **more, "max_tokens": 1}).usage.input_tokens == counted

    async def ask(made):
        return await made.messages.count_tokens(**more)

    assert run_async(base_url, ask).input_tokens == counted
    with pytest.raises(anthropic.BadRequestError, match="messages"):
        client.messages.count_tokens(**{**fields, "messages": []})


def test_errors(client, base_url):
    with pytest.raises(anthropic.BadRequestError, match="temperature"):
        client.messages.create(**{**ASK, "extra_body": {"temperature": 2}})
    with pytest.raises(anthropic.BadRequestError, match="temperature"):
        client.messages.create(**{**ASK, "extra_body": {"temperature": 2}}, stream=True)
    with pytest.raises(anthropic.NotFoundError, match="other"):
        client.messages.create(**{**ASK, "model": "other"})

    async def ask(made):
        for streamed in (False, True):
            with pytest.raises(anthropic.NotFoundError, match="other"):
                await made.messages.create(**{**ASK, "model": "other"}, stream=streamed)

    run_async(base_url, ask)


def test_keys(start_server):
    server = start_server("--api-key", "secret")
    with anthropic.Anthropic(base_url=server.base_url, api_key="secret", max_retries=0) as client:
        assert client.messages.create(**ASK).content
    with anthropic.Anthropic(base_url=server.base_url, api_key="wrong", max_retries=0) as client:
        with pytest.raises(anthropic.AuthenticationError):
            client.messages.create(**ASK)
