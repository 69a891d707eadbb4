"""Chat completions as a client of the shipped model asks for them."""

import json

CHAT = "/v1/chat/completions"


def chat(text="What is 12 plus 30?", **fields):
    return {"model": "quern-tiny", "messages": [{"role": "user", "content": text}], "max_tokens": 48, **fields}


def answer(server, body):
    response = server.post(CHAT, body)
    assert response.status == 200, response.body
    return response.json()


def stream(server, body):
    """The chunks of a streamed answer, its [DONE] checked and left off."""
    response = server.post(CHAT, {**body, "stream": True})
    assert response.status == 200, response.body
    assert response.headers["content-type"].startswith("text/event-stream")
    events = response.events()
    assert events[-1] == "[DONE]"
    return [json.loads(event) for event in events[:-1]]


def joined(chunks, field, index=0):
    """The text of one choice's deltas."""
    return "".join(choice["delta"].get(field) or "" for chunk in chunks for choice in chunk["choices"]
                   if choice["index"] == index)


def message(server, body):
    return answer(server, body)["choices"][0]["message"]


def open_stream(server, body):
    """A streamed answer that began: its role has come. The connection, and the response to read on from."""
    connection = server.connect()
    connection.request("POST", CHAT, json.dumps({**body, "stream": True}).encode())
    response = connection.getresponse()
    assert response.status == 200, response.read()
    assert b'"role"' in response.readline()
    return connection, response


def named_events(server, path, body):
    """The events of a stream whose events have names, each checked to carry its own."""
    response = server.post(path, {**body, "stream": True})
    assert response.status == 200, response.body
    assert response.headers["content-type"].startswith("text/event-stream")
    events = []
    for block in response.body.decode().split("\n\n")[:-1]:
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == "event: " + event["type"]
        events.append(event)
    return events


def error_of(response):
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error
