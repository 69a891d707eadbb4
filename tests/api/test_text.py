"""`quern text`: whole case files through encode, decode and render."""

import gzip
import hashlib
import json
import struct
import subprocess

import pytest

TOKENIZERS = ("qwen3", "gptoss")
# what chat templates do not need and an interpreter may refuse
MAY_BE_REFUSED = {"groupby", "batch", "call-caller", "filter-block", "generation"}


def read_cases(path):
    return [json.loads(line) for line in path.read_text().split("\n") if line]


def lines_through(run_quern, values, *arguments):
    """One answer for each value, in order."""
    text = "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)
    done = run_quern("text", *arguments, "--jsonl", stdin=text.encode("utf-8", "surrogatepass"))
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.decode().split("\n")[:-1]]
    assert len(answers) == len(values)
    return answers


@pytest.fixture(scope="module", params=TOKENIZERS)
def large_tokenizer(request, shared, tmp_path_factory):
    """A released tokenizer, unpacked, and its cases."""
    name = request.param
    path = tmp_path_factory.mktemp(name) / "tokenizer.json"
    path.write_bytes(gzip.decompress((shared / "data" / "tokenizers" / f"{name}.tokenizer.json.gz").read_bytes()))
    return path, read_cases(shared / "cases" / "tokenizer" / f"{name}.jsonl")


def test_encode_and_decode_cases(run_quern, large_tokenizer):
    path, cases = large_tokenizer
    cases = [case for case in cases if "text" in case]
    assert len(cases) > 50
    encoded = lines_through(run_quern, [case["text"] for case in cases], "encode", "--tokenizer", path)
    for case, ids in zip(cases, encoded):
        assert ids == case["ids"], case["text"]
    ids = [case["ids"] for case in cases]
    for case, text in zip(cases, lines_through(run_quern, ids, "decode", "--tokenizer", path)):
        assert text == case["decoded"]
    skipped = lines_through(run_quern, ids, "decode", "--tokenizer", path, "--skip-special")
    for case, text in zip(cases, skipped):
        assert text == case["decoded_skip_special"]


def test_long_texts(run_quern, large_tokenizer):
    """Texts given by the Python that builds them; a digest of the ids."""
    path, cases = large_tokenizer
    cases = [case for case in cases if "rule" in case]
    assert cases
    texts = [eval(case["rule"], {"__builtins__": {"chr": chr, "range": range, "str": str}}) for case in cases]
    for case, ids in zip(cases, lines_through(run_quern, texts, "encode", "--tokenizer", path)):
        assert len(ids) == case["count"], case["rule"]
        assert hashlib.sha256(struct.pack(f"<{len(ids)}I", *ids)).hexdigest() == case["sha256"], case["rule"]


def test_streamed_pieces(run_quern, large_tokenizer):
    path, cases = large_tokenizer
    cases = [case for case in cases if "stream_ids" in case]
    assert cases
    answers = lines_through(run_quern, [case["stream_ids"] for case in cases], "decode", "--stream", "--tokenizer",
                            path)
    for case, pieces in zip(cases, answers):
        assert pieces[:len(case["pieces"])] == case["pieces"]


def check_render(run_quern, template, cases):
    answers = lines_through(run_quern, [case["context"] for case in cases], "render", "--template", template)
    for case, answer in zip(cases, answers):
        assert answer == {"text": case["expected"]}, case["name"]


@pytest.mark.parametrize("name", ["glm-4.6", "glm-4.7-flash", "glm-5.3", "quern-tiny"])
def test_released_templates(run_quern, shared, name):
    folder = shared / "cases" / "chat_template"
    cases = read_cases(folder / f"{name}.jsonl")
    assert len(cases) > 50
    check_render(run_quern, folder / f"{name}.jinja", cases)


def test_small_templates(run_quern, shared, tmp_path):
    path = tmp_path / "template.jinja"
    for case in read_cases(shared / "cases" / "chat_template" / "jinja.jsonl"):
        path.write_text(case["template"])
        done = run_quern("text", "render", "--jsonl", "--template", path,
                         stdin=json.dumps(case["context"]).encode() + b"\n")
        if "error" in case:
            refused_at_load = done.returncode == 3 and b"line" in done.stderr
            assert refused_at_load or "error" in json.loads(done.stdout), case["name"]
        elif case["name"] in MAY_BE_REFUSED and done.returncode == 3:
            assert b"line" in done.stderr, case["name"]
        else:
            assert json.loads(done.stdout) == {"text": case["expected"]}, case["name"]


# ---- the shipped tokenizer ----

def test_round_trip(run_quern, tiny):
    texts = ["", "Hello world", "é\u202e\n\t", "<|user|>x<think>", "\x00", "日本語 🎉", " " * 100]
    ids = lines_through(run_quern, texts, "encode", "--tokenizer", tiny)
    assert ids[0] == []
    assert all(isinstance(id, int) for line in ids for id in line)
    assert lines_through(run_quern, ids, "decode", "--tokenizer", tiny) == texts
    assert lines_through(run_quern, ids[3:4], "decode", "--tokenizer", tiny / "tokenizer.json", "--skip-special") != texts[3:4]
    pieces = lines_through(run_quern, ids, "decode", "--stream", "--tokenizer", tiny)
    assert ["".join(line) for line in pieces] == texts


def test_errors_are_answers(run_quern, tiny):
    lines = [b"\"fine\"", b"{", b"", b"7", b"\"\xff\"", b"[1]", b"\"\\ud800\"", b"\"also fine\""]
    done = run_quern("text", "encode", "--jsonl", "--tokenizer", tiny, stdin=b"\n".join(lines))
    assert done.returncode == 0
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(lines)
    assert [isinstance(answer, list) for answer in answers] == [True] + [False] * 6 + [True]
    assert all(set(answer) == {"error"} for answer in answers[1:-1])
    done = run_quern("text", "decode", "--jsonl", "--tokenizer", tiny, stdin=b"[1,-1]\n[9999999]\n[1.5]\n\"x\"\n[2]")
    kinds = [type(json.loads(line)) for line in done.stdout.splitlines()]
    assert kinds == [dict, dict, dict, dict, str]
    done = run_quern("text", "render", "--jsonl", "--template", tiny / "chat_template.jinja", stdin=b"[]\n{\"messages\":7}\n")
    assert all("error" in json.loads(line) for line in done.stdout.splitlines())


def test_an_integer_beyond_64_bits_is_no_object_of_variables(run_quern, tiny):
    wide = str(10**30).encode()
    done = run_quern("text", "render", "--template", tiny / "chat_template.jinja", stdin=wide)
    assert done.returncode != 0 and b"integer beyond 64 bits" in done.stderr
    done = run_quern("text", "render", "--template", tiny / "chat_template.jinja", "--jsonl", stdin=wide + b"\n")
    assert "integer beyond 64 bits" in json.loads(done.stdout)["error"]


def test_plain_input_and_output(run_quern, tiny):
    done = run_quern("text", "encode", "Hello world", "--tokenizer", tiny)
    assert done.returncode == 0
    ids = json.loads(done.stdout)
    assert run_quern("text", "encode", "--tokenizer", tiny, stdin=b"Hello world").stdout == done.stdout
    assert run_quern("text", "decode", json.dumps(ids), "--tokenizer", tiny).stdout == b"Hello world\n"
    context = {"messages": [{"role": "user", "content": "Hi"}], "add_generation_prompt": True}
    done = run_quern("text", "render", "--template", tiny / "chat_template.jinja", stdin=json.dumps(context).encode())
    assert done.stdout == b"[gMASK]<sop><|system|>Reasoning Effort: Max<|user|>Hi<|assistant|><think>"


def test_a_conversation_is_answered_line_by_line(quern_bin, tiny):
    command = [quern_bin, "text", "encode", "--jsonl", "--tokenizer", tiny]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for text in ("a", "b c", "d"):
            process.stdin.write(json.dumps(text).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())
        process.stdin.close()
        assert process.wait(60) == 0


def test_usage(run_quern, tiny):
    for arguments, text in [
        (["encode"], "--tokenizer is missing"),
        (["render"], "--template is missing"),
        (["render", "--template", "x", "--tokenizer", "y"], "--tokenizer: has no use"),
        (["encode", "--tokenizer", tiny, "--template", "y"], "--template: has no use"),
        (["encode", "--tokenizer", tiny, "--stream"], "only for decode"),
        (["decode", "--tokenizer", tiny, "--stream"], "only with --jsonl"),
        (["encode", "x", "--tokenizer", tiny, "--jsonl"], "--jsonl reads stdin"),
        (["parse"], "--tokenizer is missing"),
        (["encode", "--tokenizer", tiny, "--chunk", "2"], "only for parse"),
        (["encdoe"], "did you mean 'encode'?"),
        (["zzzzzzzz"], "no such verb"),
        ([], "missing"),
    ]:
        done = run_quern("text", *arguments)
        assert done.returncode == 2, arguments
        assert text in done.stderr.decode(), arguments
        assert done.stdout == b""


def test_bad_files(run_quern, tiny, tmp_path):
    assert run_quern("text", "encode", "x", "--tokenizer", tmp_path / "none").returncode in (3, 4)
    broken = tmp_path / "tokenizer.json"
    broken.write_text('{"model": {}}')
    assert run_quern("text", "encode", "x", "--tokenizer", broken).returncode == 3
    template = tmp_path / "t.jinja"
    template.write_text("a\n  {% for x in %}")
    done = run_quern("text", "render", "{}", "--template", template)
    assert done.returncode == 3
    assert b"line 2" in done.stderr


def test_output_that_does_not_arrive_is_an_error(quern_bin, tiny):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([quern_bin, "text", "encode", "x", "--tokenizer", tiny], stdout=full,
                              stderr=subprocess.PIPE, check=False)
    assert done.returncode == 4
    assert b"standard output: No space left on device" in done.stderr
    lines = b"\"x\"\n" * 200000
    with subprocess.Popen([quern_bin, "text", "encode", "--jsonl", "--tokenizer", tiny], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        _, said = process.communicate(lines)
        assert process.returncode == 4
        assert b"standard output: Broken pipe" in said
