"""Starting and stopping the server: its options, its port, its signals."""

import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time
import urllib.parse

import pytest

from server_process import Server

CHAT = "/v1/chat/completions"
HELLO = {"model": "quern-tiny", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}
# Still running seconds later, whatever else the machine does. A sanitized build answers a tenth as fast.
SANITIZED = any(name in os.environ for name in ("ASAN_OPTIONS", "TSAN_OPTIONS"))
LONG = {**HELLO, "max_tokens": 600 if SANITIZED else 5000, "ignore_eos": True}


def start_stream(server, body):
    connection = server.connect()
    connection.request("POST", CHAT, json.dumps({**body, "stream": True}).encode())
    response = connection.getresponse()
    assert response.status == 200
    assert b'"role"' in response.readline()
    return connection, response


def wait_until_refused(server):
    """Until the server takes no connections any more: it drains."""
    address = urllib.parse.urlsplit(server.base_url)
    for _ in range(3000):
        try:
            socket.create_connection((address.hostname, address.port), timeout=10).close()
        except ConnectionRefusedError:
            return
        except ConnectionResetError:
            pass  # it was in the backlog of the listener that was closed
        time.sleep(0.01)
    raise AssertionError("still taking connections")


def finish_reasons(stream):
    events = [json.loads(line[6:]) for line in stream.decode().splitlines()
              if line.startswith("data: {")]
    return [event["choices"][0]["finish_reason"] for event in events if event.get("choices")]


def test_stop_when_idle(start_server):
    server = start_server()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", server.base_url)
    assert server.stop() is None
    assert any(line.startswith("quern: stopping") for line in server.stderr)


def test_stop_by_interrupt(start_server):
    assert start_server().stop(signal.SIGINT) is None


def wait_until_it_has_a_socket(process):
    """Seen from outside: to ask for its port would be to take it from it."""
    descriptors = pathlib.Path("/proc") / str(process.pid) / "fd"
    for _ in range(6000):
        for each in descriptors.iterdir():
            try:
                if os.readlink(each).startswith("socket:"):
                    return
            except FileNotFoundError:
                pass  # closed meanwhile
        assert process.poll() is None
        time.sleep(0.01)
    raise AssertionError("no socket was ever made")


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_signal_while_loading_ends_at_once(quern_bin, tiny, sent):
    """It has its port, and the line about memory finds a full pipe: loading stands still there."""
    output, full = os.pipe()
    os.set_blocking(full, False)
    try:
        while True:
            os.write(full, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(full, True)
    # a shell's background job inherits SIGINT ignored, and so would the server
    process = subprocess.Popen([quern_bin, "serve", tiny, "--port", "0"], stderr=full,
                               preexec_fn=lambda: signal.signal(sent, signal.SIG_DFL))
    try:
        wait_until_it_has_a_socket(process)
        process.send_signal(sent)
        assert process.wait(60) == -sent
    finally:
        process.kill()
        process.wait()
        os.close(output)
        os.close(full)


def test_first_signal_drains(start_server):
    server = start_server("--max-num-seqs", "1")
    kept = server.connect()
    kept.request("GET", "/health")
    assert kept.getresponse().read()
    running, response = start_stream(server, LONG)
    waiting, later = start_stream(server, HELLO)
    server.process.send_signal(signal.SIGTERM)
    wait_until_refused(server)
    kept.request("POST", CHAT, json.dumps(HELLO).encode())
    answer = kept.getresponse()
    assert answer.status == 503
    assert answer.getheader("Retry-After")
    assert answer.getheader("Connection") == "close"
    answer.read()
    stream = response.read()
    assert stream.endswith(b"data: [DONE]\n\n")
    assert finish_reasons(stream)[-1] == "length"
    stream = later.read()
    assert stream.endswith(b"data: [DONE]\n\n")
    assert finish_reasons(stream)[-1] in ("stop", "length")
    assert server.process.wait(60) == 0
    for connection in (kept, running, waiting):
        connection.close()


def test_second_signal_stops(start_server):
    server = start_server("--max-num-seqs", "1")
    running, response = start_stream(server, {**LONG, "max_tokens": 8000})
    waiting, later = start_stream(server, HELLO)
    server.process.send_signal(signal.SIGTERM)
    wait_until_refused(server)
    server.process.send_signal(signal.SIGTERM)
    complaint = server.stop()
    assert complaint.startswith("the server's exit code: 1"), complaint
    for stream in (response, later):
        events = stream.read()
        assert b'"finish_reason":"' not in events
        assert b'"error":{"message":"request: the server is stopping' in events
    running.close()
    waiting.close()


def test_port_in_use_is_told_before_the_model_is_read(start_server, run_quern, tiny):
    server = start_server()
    port = urllib.parse.urlsplit(server.base_url).port
    done = run_quern("serve", tiny, "--port", port)
    assert done.returncode == 4
    assert done.stderr.startswith(b"quern: 127.0.0.1 port %d: Address already in use" % port)
    assert done.stderr.count(b"\n") == 1


USAGE_ERRORS = [
    (["--port", "65536"], "--port: 65536 is out of range"),
    (["--port", "http"], "--port: 'http' is not a whole number"),
    (["--host", "no.such.host.invalid"], "--host: no.such.host.invalid"),
    (["--prot", "80"], "did you mean --port?"),
    (["--tensor-parallel-size", "8"], "--tensor-parallel-size: not in this version"),
    (["--enable-expert-parallel"], "--enable-expert-parallel: not in this version"),
    (["--reasoning-parser", "qwen3"], "--reasoning-parser: 'qwen3' is not supported"),
    (["--tool-call-parser", "hermes"], "--tool-call-parser: 'hermes' is not supported"),
    (["--prefix-caching-hash-algo", "sha256"], "--prefix-caching-hash-algo: not in this version"),
    (["--dtype", "float16"], "--dtype: 'float16' is not supported"),
    (["--max-model-len", "1.5"], "--max-model-len"),
    (["--max-model-len", "-2"], "--max-model-len: '-2' is not a number"),
    (["--no-enable-chunked-prefill"], "--no-enable-chunked-prefill: prompts are always computed in chunks"),
    (["--scheduling-policy", "sjf"], "--scheduling-policy: 'sjf' is not supported: give one of fcfs, priority"),
    (["--max-num-seqs", "0"], "--max-num-seqs: 0 is out of range"),
    (["--long-prefill-share", "0"], "--long-prefill-share"),
    (["--repetition-guard", "x"], "--repetition-guard"),
    (["--kv-store-size", "1G"], "--kv-store-size: needs --kv-store"),
    (["--served-model-name", ""], "--served-model-name"),
    (["--default-chat-template-kwargs", '{"messages": []}'], "--default-chat-template-kwargs.messages"),
    (["--default-chat-template-kwargs", '{"reasoning_effort": "x"}'], "unknown effort x"),
    (["--speculative-config", '{"method": "eagle", "num_speculative_tokens": 1}'], "--speculative-config"),
    (["--override-generation-config", "[]"], "--override-generation-config"),
    (["extra"], "extra: one argument too many"),
]


def test_the_longest_context_that_fits_has_vllms_names(start_server, server):
    length = server.get("/v1/models").json()["data"][0]["max_model_len"]
    for flag in (["--max-model-len", "auto"], ["--max-model-len", "-1"], ["--max-model-len=-1"]):
        assert start_server(*flag).get("/v1/models").json()["data"][0]["max_model_len"] == length


@pytest.mark.parametrize("flags, text", USAGE_ERRORS, ids=[" ".join(flags) for flags, _ in USAGE_ERRORS])
def test_usage_errors(run_quern, tiny, flags, text):
    done = run_quern("serve", tiny, "--port", "0", *flags)
    assert done.returncode == 2
    assert done.stderr.startswith(b"quern: ")
    assert text in done.stderr.decode()


def test_model_is_missing(run_quern, tmp_path):
    assert run_quern("serve").returncode == 2
    done = run_quern("serve", tmp_path, "--port", "0")
    assert done.returncode in (3, 4)
    assert done.stderr.startswith(b"quern: ")


def test_weights_that_are_cut_off_in_use_end_the_server_with_a_word(quern_bin, tiny, tmp_path):
    for file in tiny.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    lost = Server(quern_bin, tmp_path, ("--served-model-name", HELLO["model"], "--load", "mapped"), None, tmp_path)
    lost.wait_until_ready()
    os.truncate(tmp_path / "model.safetensors", 60000)
    with pytest.raises((OSError, http.client.HTTPException)):
        lost.post(CHAT, HELLO)
    fault = lost.stop()
    assert "exit code: 3" in fault and "a mapped file was truncated" in fault


def test_flags_of_vllm_without_effect(start_server):
    server = start_server("--trust-remote-code", "--gpu-memory-utilization", "0.86", "--dtype", "bfloat16",
                          "--max_cudagraph_capture_size", "2048", "--enable-chunked-prefill",
                          "--tensor-parallel-size", "1", "--max-num-seqs=16", "--no-enable-prefix-caching",
                          "--reasoning-parser", "glm47", "--tool-call-parser", "glm47",
                          "--enable-auto-tool-choice", "--host", "localhost",
                          env={"VLLM_SKIP_WARMUP": "true", "GLM_MOE_TP": "2"})
    for name in ("--trust-remote-code", "--gpu-memory-utilization", "--dtype", "--max-cudagraph-capture-size",
                 "--reasoning-parser", "--tool-call-parser", "--enable-auto-tool-choice", "VLLM_SKIP_WARMUP", "GLM_MOE_TP"):
        assert len([line for line in server.stderr if line.startswith(f"quern: {name}: ")]) == 1, name
    assert server.base_url.startswith("http://localhost:")
    assert server.get("/health").status == 200


def test_help(run_quern):
    done = run_quern("serve", "--help")
    assert done.returncode == 0
    assert done.stderr == b""
    for flag in (b"--host HOST", b"--max-model-len", b"--speculative-config", b"--trust-remote-code"):
        assert flag in done.stdout


def test_docs_list_every_flag_and_field(run_quern, tiny):
    root = tiny.parent.parent
    documented = "".join((root / "docs" / name).read_text() for name in ("cli.md", "bench.md"))
    for command in (["run"], ["serve"], ["inspect"], ["convert"], ["eval", "logits"], ["eval", "ppl"], ["eval", "kl"],
                    ["text"], ["bench", "hw"], ["bench", "kernels"], ["bench", "decode"], ["bench", "prefill"],
                    ["bench", "grammar"], ["bench", "serve"], ["plan"], ["synth"]):
        done = run_quern(*command, "--help")
        missing = {flag for flag in re.findall(r"--[a-z][a-z-]+", done.stdout.decode()) if flag not in documented}
        assert missing <= {"--help", "--measure"}, command  # of the latter, --no-measure is what is documented
    documented = (root / "docs" / "api.md").read_text()
    sources = [root / "src" / "server" / f"{name}.c" for name in
               ("openai_chat", "openai_fields", "openai_completion", "format_fields", "generation_fields",
                "template_kwargs", "responses_request", "anthropic_request", "tokenize")]
    fields = re.findall(r'\.name = "(\w+)"', "".join(source.read_text() for source in sources))
    assert len(fields) > 80
    assert [field for field in fields if f"`{field}`" not in documented] == []
