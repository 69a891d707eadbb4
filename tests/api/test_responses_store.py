"""Responses that are kept: going on from them, reading them again, deleting them, and the bound on their memory."""

import re
import threading

from chat_client import error_of, named_events

RESPONSES = "/v1/responses"
UNKNOWN = "resp_" + "0" * 32


def ask(given, **fields):
    return {"model": "quern-tiny", "max_output_tokens": 60, "temperature": 0, "input": given, **fields}


def answer(server, given, headers=None, **fields):
    response = server.post(RESPONSES, ask(given, **fields), headers=headers)
    assert response.status == 200, response.body
    return response.json()


def streamed(server, given, **fields):
    events = named_events(server, RESPONSES, ask(given, **fields))
    assert events[-1]["type"] in ("response.completed", "response.incomplete")
    return events


def path_of(response, below=""):
    return f"{RESPONSES}/{response['id']}{below}"


def items_of(server, response, query="?limit=100&order=asc"):
    listed = server.get(path_of(response, "/input_items" + query))
    assert listed.status == 200, listed.body
    return listed.json()


def metric(server, name):
    (value,) = re.findall(rf"^quern:{name}{{.*}} (\d+)$", server.get("/metrics").body.decode(), re.M)
    return int(value)


def texts(items):
    return [part["text"] for item in items for part in item["content"]]


def test_a_response_is_read_again_as_it_was(server):
    whole = answer(server, "What is 12 plus 30?", instructions="Be brief.", metadata={"k": "v"})
    assert whole["store"] is True
    again = server.get(path_of(whole))
    assert again.status == 200 and again.json() == whole
    assert again.headers["content-type"] == "application/json"
    head = server.request("HEAD", path_of(whole))
    assert head.status == 200 and head.body == b""
    events = streamed(server, "What is 12 plus 30?")
    assert server.get(path_of(events[0]["response"])).json() == events[-1]["response"]


def test_going_on_is_sending_all_items(server):
    first = answer(server, "What is 12 plus 30?", instructions="Be brief.")
    for start in (answer, lambda *args, **fields: streamed(*args, **fields)[-1]["response"]):
        second = start(server, "And 2 plus 2?", previous_response_id=first["id"])
        items = [{"role": "user", "content": "What is 12 plus 30?"}, *first["output"],
                 {"role": "user", "content": "And 2 plus 2?"}]
        whole = answer(server, items)
        # nothing of the first one's instructions is carried over
        assert second["usage"]["input_tokens"] == whole["usage"]["input_tokens"]
        assert texts(second["output"]) == texts(whole["output"])
        assert second["previous_response_id"] == first["id"] and second["instructions"] is None
    third = answer(server, "And 3?", previous_response_id=second["id"], instructions="Be kind.")
    whole = answer(server, [*items, *second["output"], {"role": "user", "content": "And 3?"}], instructions="Be kind.")
    assert third["usage"]["input_tokens"] == whole["usage"]["input_tokens"]


def test_a_call_is_answered_by_its_output_alone(server):
    tool = {"type": "function", "name": "get_weather", "description": "The weather of a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}
    fields = {"tools": [tool], "max_output_tokens": 200}
    first = answer(server, "What is the weather in Oslo?", **fields)
    (call,) = [item for item in first["output"] if item["type"] == "function_call"]
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "rain"}
    second = answer(server, [output], previous_response_id=first["id"], **fields)
    whole = answer(server, [{"role": "user", "content": "What is the weather in Oslo?"}, *first["output"], output],
                   **fields)
    assert second["usage"]["input_tokens"] == whole["usage"]["input_tokens"]
    assert second["output"][-1]["type"] == "message"


def reference(item):
    return {"type": "item_reference", "id": item["id"]}


def test_items_are_named_instead_of_sent(server):
    question = {"role": "user", "content": "What is 12 plus 30?"}
    first = answer(server, [question])
    (given,) = items_of(server, first)["data"]
    after = {"role": "user", "content": "And 2 plus 2?"}
    named = answer(server, [reference(given), *map(reference, first["output"]), after])
    sent = answer(server, [question, *first["output"], after])
    assert named["usage"]["input_tokens"] == sent["usage"]["input_tokens"]
    assert texts(named["output"]) == texts(sent["output"])
    kept = items_of(server, named)["data"]  # as if they had been sent
    assert kept[:-1] == [given, *first["output"]]
    again = answer(server, [reference(kept[1])], previous_response_id=named["id"])  # beside a conversation
    assert items_of(server, again)["data"][-1] == kept[1]
    for unknown in ("msg_" + "0" * 32 + "0000", given["id"] + "0", "msg_1", ""):
        refused = server.post(RESPONSES, ask([reference({"id": unknown}), after]))
        assert refused.status == 404 and error_of(refused)["code"] == "item_not_found"
    assert server.post(RESPONSES, ask([{"type": "item_reference"}, after])).status == 400
    server.request("DELETE", path_of(first))
    assert server.post(RESPONSES, ask([reference(first["output"][0]), after])).status == 404
    answer(server, [reference(kept[-1])])


def test_references_do_not_multiply_without_bound(server):
    large = answer(server, [{"role": "user", "content": "Hi"},
                            {"type": "function_call", "call_id": "c" * (1 << 20), "name": "f", "arguments": "{}"}])
    named = [reference(items_of(server, large)["data"][1])]
    refused = server.post(RESPONSES, ask(named * 100))
    assert refused.status == 400 and "referred to" in error_of(refused)["message"]


def test_input_items(server):
    given = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [
        {"type": "input_text", "text": 'a "quoted" [{'}, {"type": "input_text", "text": "\\}\u00e9"}]},
             {"type": "reasoning", "id": "rs_mine", "summary": [], "content": [{"type": "reasoning_text",
                                                                                "text": "Hm."}]},
             {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": "\\"}"}'},
             {"type": "function_call_output", "call_id": "c1", "output": "rain"}]
    first = answer(server, given)
    listed = items_of(server, first)
    assert listed["object"] == "list" and listed["has_more"] is False
    items = listed["data"]
    assert [item["type"] for item in items] == ["message", "message", "reasoning", "function_call",
                                                "function_call_output"]
    assert texts(items[:3]) == ["Be brief.", 'a "quoted" [{', "\\}\u00e9", "Hm."]
    assert items[2]["id"] == "rs_mine" and items[3]["arguments"] == '{"a": "\\"}"}' and items[4]["output"] == "rain"
    ids = [item["id"] for item in items]
    assert len(set(ids)) == 5 and (listed["first_id"], listed["last_id"]) == (ids[0], ids[-1])
    assert [item["id"] for item in items_of(server, first, "")["data"]] == ids[::-1]
    page = items_of(server, first, f"?order=asc&limit=2&after={ids[1]}")
    assert page["data"] == items[2:4] and page["has_more"] is True
    page = items_of(server, first, f"?order=desc&limit=2&after={ids[1]}")
    assert page["data"] == items[:1] and page["has_more"] is False
    second = answer(server, "And?", previous_response_id=first["id"])
    listed = items_of(server, second)["data"]  # all that the model was given
    assert listed[:-1] == items + first["output"] and texts(listed[-1:]) == ["And?"]
    for query in ("?limit=0", "?limit=101", "?limit=x", "?order=up", "?after=nobody"):
        refused = server.get(path_of(first, "/input_items" + query))
        assert refused.status == 400 and error_of(refused)["param"] in query


def test_what_is_not_kept(server):
    unkept = answer(server, "Hi", store=False)
    assert unkept["store"] is False
    for response in (server.get(path_of(unkept)), server.get(path_of(unkept, "/input_items")),
                     server.request("DELETE", path_of(unkept)), server.post(path_of(unkept, "/cancel"), b"")):
        assert response.status == 404
        error = error_of(response)
        assert unkept["id"] in error["message"] and error["type"] == "invalid_request_error"
    assert server.post(RESPONSES, ask("Hi", store="yes")).status == 400
    for fields in ({}, {"stream": True}):
        refused = server.post(RESPONSES, ask("Hi", previous_response_id=UNKNOWN, **fields))
        assert refused.status == 404
        error = error_of(refused)
        assert error["param"] == "previous_response_id" and error["code"] == "previous_response_not_found"
        assert UNKNOWN in error["message"] and "send" in error["message"]
    kept = answer(server, "Hi")
    unkept = answer(server, "And?", store=False, previous_response_id=kept["id"])  # goes on, and is not kept itself
    assert server.get(path_of(unkept)).status == 404


def test_delete_and_cancel(server):
    first = answer(server, "Hi")
    second = answer(server, "And?", previous_response_id=first["id"])
    cancelled = server.post(path_of(first, "/cancel"), b"")
    assert cancelled.status == 400 and "background" in error_of(cancelled)["message"]
    deleted = server.request("DELETE", path_of(first))
    assert deleted.status == 200
    assert deleted.json() == {"id": first["id"], "object": "response", "deleted": True}
    assert server.get(path_of(first)).status == 404 and server.request("DELETE", path_of(first)).status == 404
    assert server.post(RESPONSES, ask("Go on", previous_response_id=first["id"])).status == 404
    answer(server, "Go on", previous_response_id=second["id"])  # has its items still
    assert server.get(path_of(second, "?stream=true")).status == 400
    for method, below, allow in (("POST", "", "DELETE"), ("DELETE", "/input_items", "GET"), ("GET", "/cancel", "POST")):
        refused = server.request(method, path_of(second, below), b"" if method == "POST" else None)
        assert refused.status == 405 and allow in refused.headers["allow"]
    assert server.get(path_of(second, "/nothing")).status == 404


def test_requests_that_share_an_id_are_kept_apart(server):
    first = answer(server, "Hi", headers={"X-Request-Id": "same"})
    second = answer(server, "Ho", headers={"X-Request-Id": "same"})
    assert first["id"] != second["id"]
    assert texts(items_of(server, first)["data"]) == ["Hi"]


def test_a_cut_response_is_kept_with_its_status(server):
    cut = answer(server, "Hi", max_output_tokens=3, ignore_eos=True)
    assert cut["status"] == "incomplete" and server.get(path_of(cut)).json() == cut
    answer(server, "Go on", previous_response_id=cut["id"])


def test_a_failed_response_is_not_kept(start_server):
    server = start_server()
    body = ask("Hi", max_output_tokens=8000, ignore_eos=True, timeout=0.2)
    events = named_events(server, RESPONSES, body)
    assert events[-1]["type"] == "response.failed" and events[0]["response"]["store"] is True
    assert server.get(path_of(events[0]["response"])).status == 404
    assert server.post(RESPONSES, body).status == 504
    assert metric(server, "responses_stored") == 0


def test_a_response_whose_client_left_is_not_kept(start_server):
    server = start_server()
    connection = server.connect()
    connection.request("POST", RESPONSES, b'{"input": "Hi", "stream": true, "max_output_tokens": 4000, "ignore_eos": true}')
    response = connection.getresponse()
    assert b"response.created" in response.readline()
    started = response.readline().decode()
    (gone,) = re.findall(r'"id":"(resp_\w+)"', started)
    response.close()
    connection.close()
    assert server.get(f"{RESPONSES}/{gone}").status == 404
    answer(server, "Hi", store=False)
    assert metric(server, "responses_stored") == 0


def test_the_oldest_give_way_and_memory_stays_bounded(start_server):
    server = start_server("--responses-store", "12K")
    kept = [answer(server, "Hi " + "x" * 300) for _ in range(10)]
    assert metric(server, "responses_stored_bytes") <= metric(server, "responses_store_limit_bytes") == 12 << 10
    count = metric(server, "responses_stored")
    assert 0 < count < 10 and metric(server, "responses_evicted_total") == 10 - count
    known = [server.get(path_of(response)).status == 200 for response in kept]
    assert known == [False] * (10 - count) + [True] * count
    refused = server.post(RESPONSES, ask("Go on", previous_response_id=kept[0]["id"]))
    assert refused.status == 404 and "--responses-store" in error_of(refused)["message"]
    call_id = "c" * (13 << 10)  # which is kept, and makes no tokens
    large = answer(server, [{"role": "user", "content": "Hi"},
                            {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}"},
                            {"type": "function_call_output", "call_id": call_id, "output": "rain"}])
    assert large["store"] is False and server.get(path_of(large)).status == 404
    large = answer(server, "Hi", metadata={"k": "v" * (13 << 10)})  # told before it was known to be too large
    assert server.get(path_of(large)).status == 404 and metric(server, "responses_not_stored_total") == 2
    assert metric(server, "responses_stored") == count  # nobody gave way to what can never fit
    assert any("--responses-store" in line for line in server.stderr)


def test_a_server_that_keeps_nothing(start_server):
    server = start_server("--responses-store", "0")
    response = answer(server, "Hi", store=True)
    assert response["store"] is False and server.get(path_of(response)).status == 404
    refused = server.post(RESPONSES, ask("Hi", previous_response_id=response["id"]))
    assert refused.status == 404 and "--responses-store 0" in error_of(refused)["message"]
    assert "responses_stored" not in server.get("/metrics").body.decode()
    assert sum("--responses-store 0" in line for line in server.stderr) == 1


def test_nobody_reads_another_keys_responses(start_server):
    server = start_server("--api-key", "alice", "bob")
    alice, bob = {"Authorization": "Bearer alice"}, {"x-api-key": "bob"}
    response = answer(server, "My secret", headers=alice)
    assert server.get(path_of(response), headers=alice).json() == response
    unknown = error_of(server.get(f"{RESPONSES}/{UNKNOWN}", headers=bob))
    for method, below in (("GET", ""), ("GET", "/input_items"), ("DELETE", ""), ("POST", "/cancel")):
        refused = server.request(method, path_of(response, below), b"" if method == "POST" else None, headers=bob)
        assert refused.status == 404
        assert error_of(refused)["message"] == unknown["message"].replace(UNKNOWN, response["id"])
    body = ask("Tell me", previous_response_id=response["id"])
    assert server.post(RESPONSES, body, headers=bob).status == 404
    named = ask([reference(response["output"][0])])
    assert server.post(RESPONSES, named, headers=bob).status == 404
    for allowed in (body, named):
        assert server.post(RESPONSES, allowed, headers=alice).status == 200
    assert server.get(path_of(response)).status == 401


def test_many_at_once(server):
    before, failures = answer(server, "Hi"), []

    def converse():
        try:
            previous = before
            for turn in range(4):
                previous = answer(server, f"Turn {turn}", previous_response_id=previous["id"], max_output_tokens=4)
                assert server.get(path_of(previous)).json() == previous
            assert len([t for t in texts(items_of(server, previous)["data"]) if t.startswith("Turn ")]) == 4
        except AssertionError as failure:
            failures.append(failure)

    threads = [threading.Thread(target=converse) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
