"""An agent framework runs its tool loop to the end, with what it sends by itself."""

import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

asked = []


@tool
def get_weather(city: str) -> str:
    """Get the weather of a city."""
    asked.append(city)
    return "rain, 3 degrees"


def chat_model(server, **fields):
    return ChatOpenAI(model="quern-tiny", base_url=server.base_url + "/v1", api_key="none", temperature=0, max_retries=0,
                      max_tokens=300, **fields)


@pytest.mark.parametrize("fields", [{}, {"use_responses_api": True}], ids=["chat", "responses"])
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_tool_loop(server, fields, streamed):
    asked.clear()
    agent = create_agent(chat_model(server, **fields), [get_weather])
    question = {"messages": [{"role": "user", "content": "What is the weather in Oslo?"}]}
    if streamed:
        *_, state = agent.stream(question, stream_mode="values")
        assert len([message for message, _ in agent.stream(question, stream_mode="messages")]) > 3
    else:
        state = agent.invoke(question)
    kinds = [message.type for message in state["messages"]]
    assert kinds == ["human", "ai", "tool", "ai"]
    assert asked and set(asked) == {"Oslo"}
    (call,) = state["messages"][1].tool_calls
    assert (call["name"], call["args"]) == ("get_weather", {"city": "Oslo"})
    assert state["messages"][3].text and not state["messages"][3].tool_calls


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_structured_output(server, method):
    schema = {"title": "Person", "description": "A person.", "type": "object", "required": ["name", "age"],
              "additionalProperties": False,
              "properties": {"name": {"type": "string", "maxLength": 20},
                             "age": {"type": "integer", "minimum": 0, "maximum": 150}}}
    model = chat_model(server).with_structured_output(schema, method=method)
    person = model.invoke("Write JSON with the keys name, age.\n\nLena is 76 years old.")
    assert set(person) == {"name", "age"} and isinstance(person["name"], str) and type(person["age"]) is int
