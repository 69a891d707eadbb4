"""Values that /openapi.json lists for a field (enum and const) are those that its reader takes: each of them is accepted,
another one is refused by name."""

import copy
import json

import pytest

from conftest import ROOT

DOCUMENT = json.loads((ROOT / "src" / "server" / "openapi.json").read_text(encoding="utf-8"))
BODIES = {path: item["post"]["requestBody"]["content"]["application/json"]["schema"]
          for path, item in DOCUMENT["paths"].items() if "requestBody" in item.get("post", {})}
UNLISTED = "unlisted"

# What the smallest body of a path needs to be answered quickly, and fields that are only sent beside others.
SMALL = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1},
    "/v1/completions": {"prompt": "Hi", "max_tokens": 1},
    "/v1/responses": {"input": "Hi", "max_output_tokens": 1, "store": False},
    "/v1/messages": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1},
    "/v1/messages/count_tokens": {"messages": [{"role": "user", "content": "Hi"}]},
    "/tokenize": {"messages": [{"role": "user", "content": "Hi"}]},
    "/detokenize": {"tokens": [1]},
}
FUNCTION = {"name": "f", "parameters": {"type": "object"}}
BESIDE = {
    "tool_choice": {"/v1/messages": {"tools": [{"name": "f", "input_schema": {"type": "object"}}]},
                    "/v1/messages/count_tokens": {"tools": [{"name": "f", "input_schema": {"type": "object"}}]},
                    "/v1/responses": {"tools": [{"type": "function", **FUNCTION}]},
                    "": {"tools": [{"type": "function", "function": FUNCTION}]}},
    "stream_options": {"": {"stream": True}},
    "thinking": {"/v1/messages": {"max_tokens": 1025}, "": {}},
}


def resolved(schema):
    while "$ref" in schema:
        at = DOCUMENT
        for step in schema["$ref"].removeprefix("#/").split("/"):
            at = at[step]
        schema = {**at, **{key: value for key, value in schema.items() if key != "$ref"}}
    return schema


def smallest(schema):
    """The smallest instance of a schema of this document."""
    schema = resolved(schema)
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            return smallest(schema[keyword][0])
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind if isinstance(kind, str) else kind[0]
    if kind == "object":
        return {name: smallest(schema["properties"][name]) for name in schema.get("required", ())}
    if kind == "array":
        return [smallest(schema["items"])] * schema["minItems"] if schema.get("minItems") and "items" in schema else []
    return {"string": "f", "integer": schema.get("minimum", 0), "number": 0, "boolean": False, "null": None}[kind]


def listed(schema):
    """Each place in a schema that lists its values: its path, the values, and what makes an instance with one of them."""
    schema = resolved(schema)
    if "enum" in schema or "const" in schema:
        yield (), schema.get("enum", [schema.get("const")]), lambda value: value
    for keyword in ("anyOf", "oneOf", "allOf"):
        for branch in schema.get(keyword, ()):
            yield from listed(branch)
    own = None
    for name, member in schema.get("properties", {}).items():
        if member is False:
            continue
        own = smallest({**schema, "type": "object"}) if own is None else own
        for path, values, make in listed(member):
            yield (name, *path), values, lambda value, n=name, m=make, o=own: {**copy.deepcopy(o), n: m(value)}
    if schema.get("items"):
        for path, values, make in listed(schema["items"]):
            yield ("[]", *path), values, lambda value, m=make: [m(value)]


def cases():
    for path, schema in BODIES.items():
        seen = set()
        for where, values, make in listed(schema):
            if (where, json.dumps(values)) not in seen:
                seen.add((where, json.dumps(values)))
                yield pytest.param(path, where, values, make, id=f"{path}:{'.'.join(where)}:{values[0]}")


def body_with(path, where, made):
    """`made` has what its own schema requires, of which SMALL's is better where it is another field."""
    beside = BESIDE.get(where[0], {})
    field = made[where[0]]
    if where[0] == "messages" and field[-1].get("role") == "assistant":
        field.append({"role": "user", "content": "Hi"})
    if where[0] == "input":  # an item alone may be nothing that the model is shown
        field.append({"role": "user", "content": "Hi"})
        field[0].update({"arguments": "{}"} if "arguments" in field[0] else {})
    return {**SMALL[path], **beside.get(path, beside.get("", {})), where[0]: field}


@pytest.mark.parametrize("path, where, values, make", list(cases()))
def test_values_are_those_that_are_taken(server, path, where, values, make):
    for value in values:
        response = server.post(path, body_with(path, where, make(value)))
        if value == "item_reference":  # of no response
            assert response.json()["error"]["code"] == "item_not_found", response.body
        else:
            assert response.status == 200, (value, response.body)
    response = server.post(path, body_with(path, where, make(UNLISTED)))
    assert response.status == 400, "an unlisted value is taken"
    assert where[0] in response.json()["error"]["message"], response.body


def test_values_of_queries_are_those_that_are_taken(server):
    kept = server.post("/v1/responses", {"input": "Hi", "max_output_tokens": 1}).json()["id"]
    for path, item in DOCUMENT["paths"].items():
        for parameter in item.get("get", {}).get("parameters", ()):
            for value in parameter.get("schema", {}).get("enum", ()):
                at = f"{path.replace('{response_id}', kept)}?{parameter['name']}="
                assert server.get(at + value).status == 200, at + value
                assert server.get(at + UNLISTED).status == 400, at
