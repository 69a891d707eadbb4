"""Requests that are odd rather than hostile: integers beyond 64 bits, bodies that are compressed, whole addresses in
the request line, paths that lead upwards, methods that no path has."""

import json

import pytest

from raw_http import head, raw

WIDE = 10**30
BODIES = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4},
    "/v1/completions": {"prompt": "Hi", "max_tokens": 4},
    "/v1/responses": {"input": "Hi", "max_output_tokens": 4, "store": False},
    "/v1/messages": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4},
}
TOOLS = {
    "/v1/chat/completions": lambda schema: [{"type": "function", "function": {"name": "f", "parameters": schema}}],
    "/v1/responses": lambda schema: [{"type": "function", "name": "f", "parameters": schema}],
    "/v1/messages": lambda schema: [{"name": "f", "input_schema": schema}],
}


def message(response):
    assert response.status == 400, response.body
    return response.json()["error"]["message"]


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("fields", [
    {"guided_json": WIDE}, {"json_schema": WIDE}, {"structured_outputs": {"json": WIDE}},
    {"guided_json": {"properties": {"a": WIDE}}}, {"structured_outputs": WIDE}, {"logit_bias": WIDE},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": WIDE}}},
], ids=json.dumps)
def test_a_wide_integer_is_no_object(server, path, fields):
    assert next(iter(fields)) in message(server.post(path, {**BODIES[path], **fields}))


@pytest.mark.parametrize("path", TOOLS)
def test_a_wide_integer_is_no_schema_of_a_tool(server, path):
    assert "tools" in message(server.post(path, {**BODIES[path], "tools": TOOLS[path](WIDE)}))
    assert "chat_template_kwargs" in message(server.post(path, {**BODIES[path], "chat_template_kwargs": WIDE}))


def test_a_wide_integer_is_no_arguments_of_a_call(server):
    """Neither bare nor in a string; the error names the place as the API has it."""
    call = {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": str(WIDE)}}]}
    said = message(server.post("/v1/chat/completions", {"messages": [call, {"role": "user", "content": "Hi"}]}))
    assert said.startswith("messages[0].tool_calls[0].function.arguments: ") and "integer beyond 64 bits" in said
    for arguments, reason in ((str(WIDE), "integer beyond 64 bits"), ("f", "not JSON"), ("[]", "array")):
        item = {"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments}
        response = server.post("/v1/responses", {"input": [item, {"role": "user", "content": "Hi"}]})
        said = message(response)
        assert said.startswith("input[0].arguments: ") and reason in said
        assert response.json()["error"]["param"] == "input"


@pytest.mark.parametrize("path", TOOLS)
def test_a_wide_integer_is_no_list_of_properties(server, path):
    tools = TOOLS[path]({"type": "object", "properties": WIDE})
    choice = {"type": "any"} if path == "/v1/messages" else "required"
    said = message(server.post(path, {**BODIES[path], "tools": tools, "tool_choice": choice}))
    assert said.startswith("tools[0]") and "properties: integer beyond 64 bits" in said, said


def test_a_response_tells_wide_integers_again(server):
    schema = {"type": "object", "properties": {"a": {"type": "integer", "maximum": WIDE}}}
    body = {**BODIES["/v1/responses"], "metadata": {"a": [-WIDE, {"b": WIDE}]}, "tools": TOOLS["/v1/responses"](schema)}
    whole = server.post("/v1/responses", body)
    assert whole.status == 200, whole.body
    assert whole.json()["metadata"] == body["metadata"]
    assert whole.json()["tools"][0]["parameters"] == schema
    events = [json.loads(event) for event in server.post("/v1/responses", {**body, "stream": True}).events()]
    assert events[0]["response"]["metadata"] == events[-1]["response"]["metadata"] == body["metadata"]
    assert "metadata" in message(server.post("/v1/responses", {**body, "metadata": WIDE}))


@pytest.mark.parametrize("path", BODIES)
def test_a_compressed_body_is_told_as_such(server, path):
    body = json.dumps(BODIES[path]).encode()
    for encoding, status in (("gzip", 415), ("zstd, br", 415), ("identity", 200), ("", 200)):
        response = server.request("POST", path, body, headers={"Content-Encoding": encoding})
        assert response.status == status, (encoding, response.body)
        assert status == 200 or "Content-Encoding" in response.json()["error"]["message"]


def test_a_request_line_may_have_the_whole_address(server):
    for target in ("http://x/health", "HTTP://x:80/health", "https://x/health?a=/b"):
        answer = raw(server, head(path=target, method="GET", Connection="close"))
        assert answer.startswith(b"HTTP/1.1 200 "), answer
    for target in ("http://x", "http://", "http://x/nothing", "httpx://x/health"):
        answer = raw(server, head(path=target, method="GET", Connection="close"))
        assert answer.startswith(b"HTTP/1.1 404 "), answer


@pytest.mark.parametrize("name", ["..", "%2e%2e", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "../../etc/passwd", "%00", "%", "%zz",
                                  "%ff%fe", "resp_x/../../metrics", "resp_x/input_items/", "resp_x/cancel/", "x" * 5000])
def test_no_path_leads_out_of_the_stored_responses(server, name):
    for method, statuses in (("GET", (404,)), ("DELETE", (404,)), ("POST", (404, 405)), ("PUT", (404, 405)),
                             ("HEAD", (404,)), ("PATCH", (404, 405))):
        answer = raw(server, head(path=f"/v1/responses/{name}", method=method, Content_Length=0, Connection="close"))
        status = int(answer.split(b" ", 2)[1])
        assert status in statuses, (method, answer)
        assert method != "HEAD" or answer.endswith(b"\r\n\r\n")
