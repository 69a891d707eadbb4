"""quern bench serve: against a server of which everything is known, and against quern serve."""

import http.server
import json
import os
import pathlib
import signal
import subprocess
import threading
import time

import pytest

WORD_TOKENS = 2
TEMPLATE_TOKENS = 10


class ChatServer(http.server.ThreadingHTTPServer):
    """Answers chat completions as its `behave` says, which gets the handler and the request and may write anything."""

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, behave):
        super().__init__(("127.0.0.1", 0), Handler)
        self.behave = behave
        self.bodies = []
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request, client_address):
        pass  # clients hang up in these tests


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.reply(200, {"object": "list", "data": [{"id": "fake"}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            number = len(self.server.bodies)
            self.server.bodies.append(body)
        self.server.behave(self, body, number)

    def reply(self, status, value, **headers):
        data = json.dumps(value).encode()
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def begin_stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()

    def event(self, value):
        self.wfile.write(b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n")
        self.wfile.flush()

    def text(self, text):
        self.event({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}], "usage": None})

    def end_stream(self, body, **timings):
        self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}], "timings": timings})
        words = len(body["messages"][0]["content"].split())
        prompt = TEMPLATE_TOKENS + WORD_TOKENS * words
        self.event({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": body["max_tokens"],
                                             "prompt_tokens_details": {"cached_tokens": prompt // 2}}})
        self.event(b"[DONE]")


def answer(handler, body, _number, chunk=1, first_s=0.0, gap_s=0.0):
    """A good answer: one chunk for each `chunk` tokens, of which three in four drafts were accepted."""
    handler.begin_stream()
    time.sleep(first_s)
    for i in range(0, body["max_tokens"], chunk):
        if i > 0:
            time.sleep(gap_s)
        handler.text("x" * chunk)
    handler.end_stream(body, drafts=4, drafts_accepted=3)


@pytest.fixture
def chat_server():
    servers = []

    def start(behave=answer):
        servers.append(ChatServer(behave))
        return servers[-1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def bench(run_quern):
    """Runs the bench with --json against a server: its exit code, its document, its stderr."""

    def run(url, *arguments):
        done = run_quern("bench", "serve", "--base-url", url, "--json", *arguments)
        return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr.decode()

    return run


def after_calibration(behave):
    """The first two requests measure how long a word is; `behave` gets those after them, counted from 0."""
    return lambda handler, body, number: (answer if number < 2 else behave)(handler, body, number - 2)


def only_cell(document):
    [setting] = document["settings"]
    [cell] = setting["cells"]
    return cell


def test_known_delays_are_measured(bench, chat_server):
    server = chat_server(lambda *args: answer(*args, first_s=0.05, gap_s=0.02))
    code, told, stderr = bench(server.url, "--concurrency", "2", "--requests", "4", "--max-tokens", "5",
                               "--prompt-tokens", "100")
    assert code == 0, stderr
    assert told["form"] == "quern-serve-1" and told["mode"] == "table" and not told["stopped"]
    setting = told["settings"][0]
    assert setting["tokens_per_word"] == WORD_TOKENS and setting["template_tokens"] == TEMPLATE_TOKENS
    cell = only_cell(told)
    assert cell["concurrency"] == 2 and cell["requests"]["finished"] == 4
    assert cell["prompt_tokens"] == 400 and cell["completion_tokens"] == 20
    assert cell["first_token_ms"]["count"] == 4 and cell["first_token_ms"]["p50"] >= 50
    assert cell["gap_ms"]["count"] == 4 * 4 and cell["gap_ms"]["p50"] >= 20
    assert cell["whole_ms"]["p50"] >= 50 + 4 * 20
    assert cell["cached_tokens"] == 200
    assert cell["speculation"] == {"drafts": 16, "accepted": 12}
    assert cell["seconds"] >= 2 * 0.13
    assert cell["output_tokens_per_second"] == pytest.approx(20 / cell["seconds"], rel=1e-3)


def test_tokens_of_a_chunk_share_its_gap(bench, chat_server):
    server = chat_server(lambda *args: answer(*args, chunk=3, gap_s=0.03))
    code, told, stderr = bench(server.url, "--concurrency", "1", "--requests", "2", "--max-tokens", "9")
    assert code == 0, stderr
    cell = only_cell(told)
    assert cell["gap_ms"]["count"] == cell["between_tokens_ms"]["count"] == 4
    for key in ("p50", "p99", "max"):
        assert cell["between_tokens_ms"][key] == pytest.approx(cell["gap_ms"][key] / 3)


def test_same_seed_sends_the_same_requests(bench, chat_server):
    def sent(*arguments):
        server = chat_server()
        assert bench(server.url, "--concurrency", "1,2", "--requests", "3", *arguments)[0] == 0
        return sorted(json.dumps(body) for body in server.bodies[2:])

    first = sent("--seed", "5", "--temperature", "0.7", "--shared-prefix-tokens", "100")
    assert first == sent("--seed", "5", "--temperature", "0.7", "--shared-prefix-tokens", "100")
    assert not set(first) & set(sent("--seed", "6", "--temperature", "0.7", "--shared-prefix-tokens", "100"))
    bodies = [json.loads(body) for body in first]
    assert len(set(body["messages"][0]["content"] for body in bodies)) == 6
    for body in bodies:
        assert body["stream"] and body["ignore_eos"] and body["temperature"] == 0.7 and body["model"] == "fake"
    beginnings = {body["messages"][0]["content"][:200] for body in bodies}
    assert len(beginnings) == 2  # 50 words are the same within a row of the table, and others in the next


def test_refused_requests_come_again(bench, chat_server):
    def refuse_twice(handler, body, number):
        if number < 2:
            handler.reply(503, {"error": {"message": "full"}}, **({"Retry_After": "1"} if number == 0 else {}))
        else:
            answer(handler, body, number)

    code, told, stderr = bench(chat_server(after_calibration(refuse_twice)).url, "--concurrency", "1", "--requests",
                               "1")
    assert code == 0, stderr
    cell = only_cell(told)
    assert cell["requests"] == {"finished": 1, "refused": 0, "failed": 0, "cut_off": 0, "refusals": 2,
                                "refusals_without_retry_after": 1}
    assert cell["first_token_ms"]["max"] >= 2000  # waiting for a place counts


def malformed(handler, _body, _number):
    handler.begin_stream()
    handler.event(b"{oops")


def endless_line(handler, _body, _number):
    handler.begin_stream()
    for _ in range(4096):
        handler.wfile.write(b"x" * 1024)


def cut_short(handler, _body, _number):
    handler.begin_stream()
    handler.text("x")


def error_inside(handler, _body, _number):
    handler.begin_stream()
    handler.text("x")
    handler.event({"error": {"message": "it broke"}})


def refused_as_bad(handler, _body, _number):
    handler.reply(400, {"error": {"message": "no such thing"}})


def not_a_stream(handler, _body, _number):
    handler.reply(200, {"choices": []})


def nothing(handler, _body, _number):
    handler.close_connection = True


def silent(handler, _body, _number):
    handler.begin_stream()
    handler.wfile.write(b": working\n\n")
    handler.rfile.read(1)  # until the client has gone


@pytest.mark.parametrize("behave, told_error", [
    (malformed, "event"), (endless_line, "a line is longer"), (cut_short, "ended before its finish_reason"),
    (error_inside, "it broke"), (refused_as_bad, "HTTP 400: no such thing"), (not_a_stream, "ended before"),
    (nothing, "connection:"), (silent, "silent for"),
])
def test_failed_request_is_counted_and_told(bench, chat_server, behave, told_error):
    one_bad = after_calibration(lambda handler, body, number: (behave if number == 1 else answer)(handler, body,
                                                                                                   number))
    # only the silent server is meant to be too slow; 5 s are more than a machine stands still while the others answer
    code, told, stderr = bench(chat_server(one_bad).url, "--concurrency", "1", "--requests", "3", "--max-tokens", "4",
                               *(("--timeout", "5") if behave is silent else ()))
    assert code == 1
    cell = only_cell(told)
    # an empty reply on a kept connection is sent once more by the client's library
    assert cell["requests"]["finished"] == 2 and cell["requests"]["failed"] == 1
    assert told_error in cell["first_error"] and told_error in stderr


def test_server_that_dies_ends_the_bench(bench, chat_server):
    def die(handler, body, number):
        if number == 1:
            handler.server.socket.close()
            handler.close_connection = True
        else:
            answer(handler, body, number)

    code, told, _ = bench(chat_server(after_calibration(die)).url, "--concurrency", "2", "--requests", "6")
    assert code == 1
    requests = only_cell(told)["requests"]
    assert requests["failed"] > 0 and requests["finished"] + requests["failed"] == 6


def test_first_request_that_fails_is_told(bench, chat_server):
    code, told, stderr = bench(chat_server(refused_as_bad).url)
    assert code == 1 and told["settings"] == []
    assert "first request: server: HTTP 400: no such thing" in stderr


def test_interrupt_keeps_what_was_measured(quern_bin, chat_server, tmp_path):
    reached = threading.Event()

    def hang_late(handler, body, number):
        if number < 3:
            answer(handler, body, number)
        else:
            handler.begin_stream()
            reached.set()
            time.sleep(30)

    server = chat_server(after_calibration(hang_late))
    with subprocess.Popen([quern_bin, "bench", "serve", "--base-url", server.url, "--concurrency", "1,4", "--requests",
                           "8", "--out", tmp_path / "told.json"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        assert reached.wait(60)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 1 and b"stopped by a signal" in stderr
    assert b"1 cut off" in stdout
    told = json.loads((tmp_path / "told.json").read_text(encoding="utf-8"))
    assert told["stopped"] and only_cell(told)["requests"]["finished"] == 3


def test_table_for_people(run_quern, chat_server):
    done = run_quern("bench", "serve", "--base-url", chat_server().url, "--concurrency", "1,2", "--requests", "2",
                     "--max-tokens", "3")
    assert done.returncode == 0, done.stderr
    table = done.stdout.decode()
    assert "model fake: prompts of 256 tokens, 0 of them shared; answers of 3; temperature 0, seed 0" in table
    assert "75.0 %" in table and "50.0 %" in table
    assert len(table.splitlines()) == 5


# ---- stress ----

def long_words(body):
    return len(body["messages"][0]["content"].split()) > 500


def stress(bench, url, *arguments):
    return bench(url, "--stress", "--decodes", "2", "--long-prompts", "2000,3000", "--max-tokens", "8", *arguments)


def slow_for_long(handler, body, number):
    answer(handler, body, number, first_s=0.3 if long_words(body) else 0, gap_s=0.01)


def test_stress_tells_gaps_and_long_prompts(bench, chat_server):
    server = chat_server(slow_for_long)
    code, told, stderr = stress(bench, server.url, "--max-gap-ms", "60000")
    assert code == 0, stderr
    result = told["settings"][0]["stress"]
    assert [entry["outcome"] for entry in result["each_long_prompt"]] == ["finished", "finished"]
    assert [entry["prompt_tokens"] for entry in result["each_long_prompt"]] == [2000, 3000]
    assert all(entry["first_token_ms"] >= 300 for entry in result["each_long_prompt"])
    during, gaps = result["gap_ms_during_long_prompts"], result["decodes"]["gap_ms"]
    assert 0 < during["count"] <= gaps["count"] and during["max"] <= gaps["max"]
    assert result["gap_histogram"][-1] == {"at_most_ms": None, "gaps": gaps["count"]}
    assert result["decodes"]["requests"]["failed"] == 0
    # the long prompts went out once both decoding clients got tokens
    first_long = next(i for i, body in enumerate(server.bodies) if long_words(body))
    assert first_long >= 2 + 2


def test_stress_fails_on_a_long_gap(bench, chat_server):
    code, _, stderr = stress(bench, chat_server(slow_for_long).url, "--max-gap-ms", "0.5")
    assert code == 1 and "is longer than twice 0.5 ms" in stderr


def test_stress_fails_on_a_failed_long_prompt(bench, chat_server):
    def fail_long(handler, body, number):
        (refused_as_bad if long_words(body) else slow_for_long)(handler, body, number)

    code, told, stderr = stress(bench, chat_server(fail_long).url)
    assert code == 1 and "long prompts: 2 failed" in stderr
    assert told["settings"][0]["stress"]["long_prompts"]["requests"]["failed"] == 2


def test_stress_ends_when_no_decode_succeeds(bench, chat_server):
    def fail_short(handler, body, number):
        (answer if long_words(body) else refused_as_bad)(handler, body, number)

    code, _, stderr = stress(bench, chat_server(after_calibration(fail_short)).url)
    assert code == 1 and "decodes: 2 failed" in stderr


def test_stress_draws_the_gaps(run_quern, chat_server):
    done = run_quern("bench", "serve", "--base-url", chat_server(slow_for_long).url, "--stress", "--long-prompts",
                     "2000", "--max-tokens", "8", env={"LC_ALL": "C"})
    assert done.returncode == 0, done.stderr
    assert b"while long prompts ran" in done.stdout and b"########" in done.stdout


# ---- overload ----

def test_overload_counts_every_request(bench, chat_server):
    def refuse_odd(handler, body, number):
        if number % 2:
            handler.reply(503, {"error": {"message": "full"}}, Retry_After="1")
        else:
            answer(handler, body, number)

    server = chat_server(after_calibration(refuse_odd))
    code, told, stderr = bench(server.url, "--overload", "0.5", "--clients", "40")
    assert code == 0, stderr
    requests = told["settings"][0]["overload"]["requests"]
    assert requests["finished"] > 0 and requests["refused"] > 0 and requests["failed"] == 0
    assert requests["finished"] + requests["refused"] == len(server.bodies) - 2


@pytest.mark.parametrize("behave, complaint", [
    (lambda handler, body, number: handler.reply(503, {}), "had no Retry-After"), (nothing, "connection:")])
def test_overload_fails_when_a_request_is_lost(bench, chat_server, behave, complaint):
    server = chat_server(after_calibration(lambda handler, body, number: (behave if number == 3 else answer)(
        handler, body, number)))
    code, _, stderr = bench(server.url, "--overload", "0.3", "--clients", "5")
    assert code == 1 and complaint in stderr


def test_overload_of_own_server_tells_its_memory(run_quern, tiny):
    done = run_quern("bench", "serve", tiny, "--json", "--overload", "1", "--clients", "8")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)["settings"][0]["overload"]
    assert told["server_bytes_at_a_quarter"] > 1 << 20 and told["server_bytes_at_the_end"] > 1 << 20


# ---- quern's own server ----

def test_running_quern_serve(bench, base_url):
    code, told, stderr = bench(base_url + "/v1", "--concurrency", "1,3", "--requests", "3", "--prompt-tokens", "60",
                               "--max-tokens", "6")
    assert code == 0, stderr
    setting = told["settings"][0]
    assert setting["model"] == "quern-tiny" and setting["prefix_caching"] is None
    for cell in setting["cells"]:
        assert cell["requests"]["finished"] == 3 and cell["completion_tokens"] == 18
        assert 40 <= cell["prompt_tokens"] / 3 <= 80


def test_grid_of_own_servers(run_quern, tiny):
    done = run_quern("bench", "serve", tiny, "--json", "--prefix-caching", "on,off", "--speculation", "0,1",
                     "--concurrency", "2", "--requests", "2", "--prompt-tokens", "40", "--max-tokens", "8", "--",
                     "--max-model-len", "1024")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [(s["prefix_caching"], s["num_speculative_tokens"]) for s in told["settings"]] == [
        (True, 0), (True, 1), (False, 0), (False, 1)]
    for setting in told["settings"]:
        [cell] = setting["cells"]
        assert cell["requests"]["finished"] == 2
        assert (cell["speculation"]["drafts"] > 0) == (setting["num_speculative_tokens"] > 0)
        assert cell["cached_tokens"] is not None
    assert done.stderr.count(b"quern: server: serving on") == 4


def test_own_server_that_does_not_start(run_quern, tiny):
    done = run_quern("bench", "serve", tiny, "--", "--no-such-flag")
    assert done.returncode == 1
    assert b"server: --no-such-flag" in done.stderr and b"exit code 2" in done.stderr


def test_stress_of_a_random_model_with_a_long_context(run_quern, quern_bin, tmp_path):
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    subprocess.run([root / "tools" / "synthetic_long.py", tmp_path / "model", "--quern", quern_bin], check=True)
    done = run_quern("bench", "serve", tmp_path / "model", "--json", "--stress", "--decodes", "1", "--prompt-tokens",
                     "40", "--max-tokens", "4", "--long-prompts", "200,300", "--temperature", "1", "--",
                     "--max-model-len", "1024")
    assert done.returncode == 0, done.stderr
    entries = json.loads(done.stdout)["settings"][0]["stress"]["each_long_prompt"]
    assert [entry["outcome"] for entry in entries] == ["finished", "finished"]
    assert [round(entry["prompt_tokens"], -2) for entry in entries] == [200, 300]


def children_of(pid):
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as stat:
                    fields = stat.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[1]) == pid and fields[0] != "Z":
                found.append(int(entry))
    return found


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_own_server_ends_with_the_bench(quern_bin, tiny, sent):
    with subprocess.Popen([quern_bin, "bench", "serve", tiny, "--requests", "100000", "--concurrency", "2"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        process.stdout.readline()  # it measures
        [server] = children_of(process.pid)
        process.send_signal(sent)
        process.communicate(timeout=60)
    deadline = time.monotonic() + 60
    while os.path.exists(f"/proc/{server}") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{server}")


@pytest.mark.parametrize("arguments", [
    (), ("--base-url", "http://h", "DIR"), ("--base-url", "h:8000"), ("--base-url", "http://h", "--", "--threads", "2"),
    ("--base-url", "http://h", "--prefix-caching", "on"), ("--base-url", "http://h", "--concurrency", "0"),
    ("--base-url", "http://h", "--concurrency", "1,,2"), ("--base-url", "http://h", "--concurrency", ""),
    ("DIR", "--prefix-caching", "maybe"), ("DIR", "--speculation", "99"), ("DIR", "--", "--port", "1"),
    ("DIR", "--stress", "--overload", "1"), ("DIR", "--stress", "--requests", "3"), ("DIR", "--clients", "3"),
    ("DIR", "--prompt-tokens", "10", "--shared-prefix-tokens", "10"), ("DIR", "--stress", "--long-prompts", "x"),
])
def test_usage(run_quern, arguments):
    done = run_quern("bench", "serve", *arguments)
    assert (done.returncode, done.stdout) == (2, b""), done.stderr
    assert done.stderr.startswith(b"quern: ")


def test_help(run_quern):
    done = run_quern("bench", "serve", "--help")
    assert done.returncode == 0 and b"--base-url URL" in done.stdout
