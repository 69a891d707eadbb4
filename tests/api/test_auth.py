"""Keys: who brings none, or a wrong one, gets 401 and costs nothing; no key is ever shown."""

import json

import pytest

from chat_client import CHAT, chat, error_of
from conftest import ROOT, stop_all
from server_process import Server

KEY = "sk-Secret-of-Anna.42"
OTHER = "sk-Secret-of-Otto_43"
HELLO = chat("Hi", max_tokens=4)


@pytest.fixture(scope="module", name="guarded")
def guarded_fixture(quern_bin, tiny):
    """One server with two keys for all tests that leave it as they found it."""
    server = Server(quern_bin, tiny, ("--api-key", KEY, OTHER), None, ROOT)
    server.wait_until_ready()
    yield server
    stop_all([server])
    assert "Secret" not in server.stderr_text()


@pytest.mark.parametrize("headers", [
    {"Authorization": f"Bearer {KEY}"},
    {"Authorization": f"Bearer {OTHER}"},
    {"Authorization": f"bearer   {OTHER}"},
    {"x-api-key": KEY},
    {"X-API-Key": OTHER, "Authorization": "Bearer of somebody else"},
], ids=str)
def test_keys_are_taken(guarded, headers):
    assert guarded.post(CHAT, HELLO, headers=headers).status == 200
    assert guarded.get("/v1/models", headers=headers).status == 200


@pytest.mark.parametrize("headers", [
    {},
    {"Authorization": "Bearer wrong"},
    {"Authorization": "Bearer"},
    {"Authorization": "Bearer "},
    {"Authorization": KEY},
    {"Authorization": f"Basic {KEY}"},
    {"Authorization": f"Bearer {KEY}x"},
    {"Authorization": f"Bearer {KEY[:-1]}"},
    {"Authorization": f"Bearer {KEY.lower()}"},
    {"Authorization": f"Bearer {'x' * 30000}"},
    {"x-api-key": "wrong"},
    {"x-api-key": ""},
], ids=lambda headers: str(headers)[:50])
@pytest.mark.parametrize("method, path", [("POST", CHAT), ("GET", "/v1/models"), ("GET", "/v1/models/quern-tiny"),
                                          ("GET", "/no/such/path"), ("DELETE", CHAT)], ids=str)
def test_without_one_it_is_401(guarded, method, path, headers):
    response = guarded.request(method, path, HELLO if method == "POST" else None, headers=headers)
    assert response.status == 401
    assert response.headers["www-authenticate"] == "Bearer"
    error = error_of(response)
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", "invalid_api_key", None)
    assert error["message"].startswith("API key: missing" if not headers else "API key: not one of the server's")
    assert b"Secret" not in response.body and b"xxxx" not in response.body


def test_anthropics_paths_have_its_errors(guarded):
    response = guarded.post("/v1/messages", {}, headers={"x-api-key": "wrong"})
    assert response.status == 401 and response.headers["www-authenticate"] == "Bearer"
    told = response.json()
    assert (told["type"], told["error"]["type"]) == ("error", "authentication_error")
    assert guarded.post("/v1/messages", {}, headers={"x-api-key": KEY}).status == 400


def test_open_paths(guarded):
    for path in ("/health", "/version", "/metrics", "/load"):
        assert guarded.get(path).status == 200, path
        assert guarded.request("HEAD", path).status == 200, path
    assert guarded.request("OPTIONS", CHAT).status == 204


def test_a_refused_body_is_not_kept_and_the_connection_goes_on(guarded):
    connection = guarded.connect()
    for key, status in (("wrong", 401), (KEY, 200), ("wrong", 401)):
        body = json.dumps(chat("Hi" if status == 200 else "x" * (4 << 20), max_tokens=4)).encode()
        connection.request("POST", CHAT, body, {"Authorization": f"Bearer {key}"})
        response = connection.getresponse()
        assert response.status == status
        response.read()
    connection.request("POST", CHAT, b"x" * (65 << 20), {})
    assert connection.getresponse().status == 413
    connection.close()


def test_the_cases_say_what_clients_get(guarded, shared):
    with open(shared / "cases" / "api" / "requests.jsonl", encoding="utf-8") as lines:
        cases = [case for case in map(json.loads, lines) if case["name"].startswith("auth-")]
    assert len(cases) >= 3
    for case in cases:
        headers = {name: value.replace("KEY", KEY) for name, value in case.get("headers", {}).items()}
        if case["path"] != CHAT and guarded.post(case["path"], {}, headers={"x-api-key": KEY}).status == 404:
            continue  # the path itself is not served yet
        assert guarded.request(case["method"], case["path"], case["body"], headers).status == case["status"]


def key_file(path, text, mode=0o600):
    path.write_text(text)
    path.chmod(mode)
    return path


def statuses(server, *keys):
    return [server.get("/v1/models", headers={"Authorization": f"Bearer {key}"}).status for key in keys]


def test_keys_from_files(start_server, tmp_path):
    first = key_file(tmp_path / "first", f"# Anna's\n{KEY}\n\n")
    second = key_file(tmp_path / "second", f"{OTHER}\r\nthird", 0o644)
    server = start_server("--api-key-file", first, "--api-key-file", second, "--api-key", "on-the-line",
                          env={"VLLM_API_KEY": "of-the-environment"})
    assert statuses(server, KEY, OTHER, "third", "on-the-line") == [200] * 4
    assert statuses(server, "of-the-environment", "#", "# Anna's") == [401] * 3
    said = server.stderr_text()
    assert f"quern: {second}: others on this machine may read these keys" in said
    assert str(first) not in said
    assert "quern: VLLM_API_KEY: has no effect beside --api-key" in said
    for key in (KEY, OTHER, "third", "on-the-line", "of-the-environment"):
        assert key not in said


def test_key_from_the_environment(start_server):
    server = start_server(env={"VLLM_API_KEY": KEY})
    assert statuses(server, KEY, OTHER) == [200, 401]
    assert "VLLM_API_KEY" not in server.stderr_text()


def test_bench_brings_the_key_of_the_environment(guarded, run_quern):
    flags = ("bench", "serve", "--base-url", guarded.base_url, "--concurrency", 1, "--requests", 1, "--prompt-tokens", 64,
             "--max-tokens", 4)
    for variable in ("OPENAI_API_KEY", "VLLM_API_KEY"):
        done = run_quern(*flags, env={variable: OTHER})
        assert done.returncode == 0, done.stderr
    done = run_quern(*flags, env={"OPENAI_API_KEY": "of-nobody"})
    assert done.returncode == 3 and b"API key: not one of the server's" in done.stderr
    assert b"of-nobody" not in done.stderr


@pytest.mark.parametrize("flags, warned", [(("--host", "0.0.0.0"), True), (("--host", "localhost"), False), ((), False),
                                           (("--host", "0.0.0.0", "--api-key", KEY), False)], ids=str)
def test_strangers_are_warned_of(start_server, flags, warned):
    line = "quern: 0.0.0.0: who reaches this address may use the server: --api-key asks for keys"
    assert (line in start_server(*flags).stderr) == warned


def test_an_empty_variable_asks_for_none(start_server):
    assert start_server(env={"VLLM_API_KEY": ""}).get("/v1/models").status == 200


@pytest.mark.parametrize("flags, code, text", [
    (["--api-key", ""], 2, "--api-key: not a key"),
    (["--api-key", "two words"], 2, "--api-key: not a key"),
    (["--api-key-file", "FILE"], 2, "line 2: key: not a key"),
    (["--api-key-file", "EMPTY"], 3, "has no key: write one a line"),
    (["--api-key-file", "MISSING"], 3, "no such file"),
], ids=str)
def test_bad_keys_are_told_before_the_model_is_read(run_quern, tiny, tmp_path, flags, code, text):
    key_file(tmp_path / "FILE", "fine\nSecret words\n")
    key_file(tmp_path / "EMPTY", "# none\n")
    done = run_quern("serve", tiny, "--port", "0",
                     *(tmp_path / flag if flag.isupper() else flag for flag in flags))
    said = done.stderr.decode()
    assert done.returncode == code, said
    assert said.startswith("quern: ") and text in said and said.count("\n") == 1
    assert "Secret" not in said and "two words" not in said
