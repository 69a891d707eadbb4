"""/openapi.json, and what requests drawn from it find: no answer is the server's fault, none is of a status, type or shape
that the document does not have, and the server ends as cleanly as ever.

Each run draws other requests; hypothesis prints one that failed, made as simple as it can be. QUERN_OPENAPI_EXAMPLES says
how many requests each operation with a body gets, half of them of the documented shape, half not."""

import collections
import json
import os

import hypothesis
import pytest
import schemathesis

from conftest import ROOT, stop_all
from server_process import Server

DOCUMENT = json.loads((ROOT / "src" / "server" / "openapi.json").read_text(encoding="utf-8"))
OPERATIONS = [(method, path) for path, item in DOCUMENT["paths"].items() for method in item]
EXAMPLES = int(os.environ.get("QUERN_OPENAPI_EXAMPLES", "50"))
FEW = 4  # for operations without a body, where requests differ little
CHECKS = [schemathesis.checks.not_a_server_error, schemathesis.checks.status_code_conformance,
          schemathesis.checks.content_type_conformance, schemathesis.checks.response_schema_conformance]

# NUL in a name is refused whatever the rest is, and would be most of what is drawn; test_bad_inputs.py has it
schema = schemathesis.openapi.from_dict(DOCUMENT)
schema.config.generation.update(allow_x00=False)


@pytest.fixture(scope="module")
def small_server(quern_bin, tiny):
    """Its answers are short and few, whatever is asked for."""
    server = Server(quern_bin, tiny, ("--max-model-len", "128", "--max-num-seqs", "2", "--max-queue", "2"), None, ROOT)
    server.wait_until_ready()
    yield server
    stop_all([server])


def test_the_document_is_served(server):
    response = server.get("/openapi.json")
    assert response.status == 200 and response.headers["content-type"] == "application/json"
    served = response.json()
    assert served["info"].pop("version") == server.get("/version").json()["version"]
    assert served == {**DOCUMENT, "info": {key: DOCUMENT["info"][key] for key in ("title", "description")}}


def test_methods_are_those_documented(server):
    for path, item in DOCUMENT["paths"].items():
        filled = path.replace("{model}", "quern-tiny").replace("{response_id}", "resp_x")
        allowed = server.request("OPTIONS", filled).headers["allow"].split(", ")
        assert {each.lower() for each in allowed} - {"head", "options"} == set(item), path


@pytest.mark.parametrize("method, path", OPERATIONS)
def test_random_requests(small_server, method, path):
    operation = schema[path][method.upper()]
    has_body = "requestBody" in DOCUMENT["paths"][path][method]
    for mode in schemathesis.GenerationMode:
        statuses = collections.Counter()

        @hypothesis.given(operation.as_strategy(generation_mode=mode))
        @hypothesis.settings(max_examples=EXAMPLES // 2 if has_body else FEW, deadline=None, database=None,
                             suppress_health_check=list(hypothesis.HealthCheck))
        def send(case):
            if mode is schemathesis.GenerationMode.POSITIVE and isinstance(case.body, dict):
                case.body.pop("model", None)  # few would be served
            response = case.call_and_validate(base_url=small_server.base_url, checks=CHECKS, timeout=300)
            statuses[response.status_code] += 1

        send()
        print(f"{mode.value}: {dict(statuses)}")
