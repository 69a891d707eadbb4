"""Requests made to hurt: forms that explode, nest, loop or contradict themselves, names that are markup, clients that
hang up. Each is answered in its form or refused by the name of its field, and the server goes on serving others."""

import concurrent.futures
import json
import threading
import time

import pytest

from chat_client import error_of
from crowd import wait_for

PATH = "/v1/chat/completions"
WORKERS = 4


def body(**fields):
    return {"model": "quern-tiny", "messages": [{"role": "user", "content": "Say."}], "max_tokens": 6, "temperature": 1,
            "seed": 1, "thinking_token_budget": 0, **fields}


def regex(pattern):
    return {"structured_outputs": {"regex": pattern}}


def grammar(text):
    return {"structured_outputs": {"grammar": text}}


def choice(texts):
    return {"structured_outputs": {"choice": texts}}


def schema(value):
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": value}}}


def tool(parameters):
    return {"tools": [{"type": "function", "function": {"name": "f", "parameters": parameters}}],
            "tool_choice": "required", "max_tokens": 60}


def members(properties, **fields):
    return {"type": "object", "properties": properties, **fields}


def nested(wrap, depth, value):
    for _ in range(depth):
        value = wrap(value)
    return value


def rules(step, last):
    """Sixty rules, each of which goes on in the next."""
    steps = [f"r{i} ::= " + step.format(next=f"r{i + 1}") for i in range(60)]
    return "\n".join(["root ::= r0", *steps, f"r60 ::= {last}"])


def doubled(keyword):
    """A schema whose parts refer twice each to the next: 2^40 when written out."""
    defs = {f"a{i}": {keyword: [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(40)}
    return {"$defs": {**defs, "a40": {"type": "integer"}}, "$ref": "#/$defs/a0"}


ANSWERED = {
    "two ways for each letter": regex("(a|a)*b"),
    "stars of stars": regex("((a*)*|(b|a)*)*c{5}"),
    "repeated a milliard times": regex("((a{1000}){1000}){1000}"),
    "optional as often as demanded": regex("(a?){1000}a{1000}"),
    "subsets of many": regex("(a|b)*a(a|b){200}"),
    "counts in counts": regex("(a{1,30}){1,30}"),
    "NUL": regex("a\0b"),
    "six thousand loops": regex("|".join(f"w{i}x*" for i in range(6000))),
    "beginnings of each other": choice(["a" * i for i in range(1, 1000)]),
    "a megabyte": choice(["a" * 1_000_000]),
    "nothing": choice([""]),
    "tokens' names as text": choice(["<|user|>", "</think>", "<tool_call>", "<|endoftext|>"]),
    "line breaks and quotes": choice(["\"\n\t\\'", "e\u0301", "\u00e9"]),
    "two to the sixtieth": grammar(rules("{next} {next}", '"a"')),
    "a choice at each step": grammar(rules('"a" {next} | "a" {next} "b"', '"a"')),
    "itself twice": grammar('root ::= "a" | root root'),
    "palindromes": grammar("root ::= . root . | ."),
    "a long chain": grammar("\n".join(["root ::= r0", *(f"r{i} ::= r{i + 1}" for i in range(5000)), 'r5000 ::= "a"'])),
    "doubling anyOf": schema(doubled("anyOf")),
    "doubling allOf": schema(doubled("allOf")),
    "doubling without names": schema(nested(lambda x: {"allOf": [x, x]}, 10, {"type": "integer"})),
    "deep objects": schema(nested(lambda x: members({"a": x}, required=["a"]), 150, {"type": "integer"})),
    "512 members": schema(members({f"p{i}": {"type": "string"} for i in range(512)},
                                  required=[f"p{i}" for i in range(512)], additionalProperties=False)),
    "ten thousand values": schema({"enum": [f"v{i}" for i in range(10_000)]}),
    "lengths beyond all": schema({"type": "string", "maxLength": 10**12}),
}

REFUSED = {
    "nested too deep": regex("(" * 5000 + "a" + ")" * 5000),
    "no text": regex("[^\\s\\S]"),
    "itself through another": grammar('root ::= x "a"\nx ::= root "b" | "c"'),
    "without an end": grammar('root ::= "a" root'),
    "a NUL in a choice": choice(["a\0b"]),
    "above a megabyte": grammar('root ::= "' + "a" * 1_100_000 + '"'),
    "patterns that cannot be joined": schema({"type": "string", "allOf": [{"pattern": f"^(.*{c}.*)$"}
                                                                   for c in "abcdefghijklmnop"]}),
    "the opposite of many states": schema({"type": "string", "not": {"pattern": "(a|b)*a(a|b){25}$"}}),
    "a reference to itself": schema({"$ref": "#"}),
    "a value in itself for ever": schema(members({"a": {"$ref": "#"}}, required=["a"])),
    "nothing fits": schema({"type": "integer", "minimum": 5, "maximum": 4}),
    "513 members": schema(members({f"p{i}": {} for i in range(513)})),
    "a call without an end": tool(members({"n": {"$ref": "#"}}, required=["n"])),
    "no argument fits": tool(members({"a": False}, required=["a"])),
    "no name": tool(members({"": {"type": "string"}}, required=[""])),
    "no object": tool({"type": "array"}),
    # compiled, and found out when tokens are asked for
    "readings without number": grammar(rules("{next} {next}", '"a"?')),
}


class Others(threading.Thread):
    """Another client, who is served while the test runs."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server = server
        self.served, self.faults, self.over = 0, [], threading.Event()

    def run(self):
        while not self.over.is_set():
            response = self.server.post("/v1/completions", {"model": "quern-tiny", "prompt": "a", "max_tokens": 2})
            self.served += response.status == 200
            if response.status != 200:
                self.faults.append(response.body)
            time.sleep(0.01)


@pytest.fixture
def others(server):
    thread = Others(server)
    thread.start()
    yield thread
    thread.over.set()
    thread.join(60)
    assert not thread.is_alive() and thread.served > 0 and not thread.faults, thread.faults


def ask_all(server, cases):
    def ask(case):
        return case[0], case[1], server.post(PATH, body(**case[1]))

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(ask, cases.items()))


def test_forms_that_explode_are_answered(server, others):
    for name, _, response in ask_all(server, ANSWERED):
        assert response.status == 200, (name, response.body)
        assert response.json()["choices"][0]["finish_reason"] in ("stop", "length"), name


def test_forms_that_cannot_be_are_refused_by_name(server, others):
    for name, fields, response in ask_all(server, REFUSED):
        assert response.status == 400, (name, response.body)
        error = error_of(response)
        assert error["param"] in fields and error["type"] == "invalid_request_error", (name, error)


def test_a_stream_tells_that_a_form_has_too_many_readings(server):
    response = server.post(PATH, body(stream=True, **REFUSED["readings without number"]))
    assert response.status in (200, 400)
    told = [json.loads(event) for event in response.events() if event != "[DONE]"] or [response.json()]
    assert told[-1]["error"]["type"] == "invalid_request_error" and told[-1]["error"]["param"] == "structured_outputs"


def test_what_may_not_be_known_is_never_left_out(server):
    """Each "a" doubles the readings. Where one more would be too many the answer could still end, and must not: whether
    it would have gone on is not known."""
    form = grammar('root ::= "a" root "b" | "a" root "c" | "~"')
    end = server.post("/tokenize", {"prompt": "~", "add_special_tokens": False}).json()["tokens"]
    assert len(end) == 1
    response = server.post(PATH, body(**{**form, "max_tokens": 60, "logit_bias": {str(end[0]): -100}}))
    assert response.status == 400, response.body
    assert error_of(response)["param"] == "structured_outputs" and "too many readings" in error_of(response)["message"]


@pytest.mark.parametrize("name", ["</arg_key>", "a\nb <arg_value>", "\"\\'", "e\u0301\u202e", "<|user|>"])
def test_names_of_arguments_may_be_markup(server, name):
    parameters = members({name: {"type": "integer"}}, required=[name], additionalProperties=False)
    response = server.post(PATH, body(**tool(parameters)))
    assert response.status == 200, response.body
    answer = response.json()["choices"][0]
    assert answer["finish_reason"] in ("tool_calls", "length")
    if answer["finish_reason"] == "tool_calls":
        assert set(json.loads(answer["message"]["tool_calls"][0]["function"]["arguments"])) == {name}


def test_clients_that_hang_up_leave_nothing_behind(server, others):
    forms = [regex("(.{0,50}a|.{0,60}b){0,1000}"), ANSWERED["512 members"], tool({}), grammar("root ::= . root . | .")]

    def hang_up(i):
        connection = server.connect()
        connection.request("POST", PATH, json.dumps(body(**{**forms[i % len(forms)], "seed": i, "max_tokens": 500,
                                                            "stream": i % 2 == 0})).encode())
        if i % 4 == 0:
            connection.getresponse().readline()
        connection.close()

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(hang_up, range(40)))
    wait_for(lambda: server.get("/load").json()["server_load"] <= 1)  # 1: the other client
