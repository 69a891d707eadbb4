"""/openapi.json: what is served is the document of the source, and the server's methods are those it tells."""

import json

from conftest import ROOT

DOCUMENT = json.loads((ROOT / "src" / "server" / "openapi.json").read_text(encoding="utf-8"))


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
