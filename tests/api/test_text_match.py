"""`quern text match`: what regexes, grammars and choices accept, and where they are left."""

import json

import pytest


def read_cases(path):
    return [json.loads(line) for line in path.read_text().split("\n") if line]


def flags_of(case, folder):
    """The flags that give the case's grammar."""
    kind, grammar = case["kind"], case["grammar"]
    if kind == "regex":
        return ["--regex", grammar]
    path = folder / "grammar"
    path.write_text(json.dumps(grammar) if kind == "choice" else grammar)
    return ["--gbnf" if kind == "ebnf" else f"--{kind}", path]


def match(run_quern, texts, *flags):
    done = run_quern("text", "match", "--jsonl", *flags, stdin="".join(json.dumps(t) + "\n" for t in texts).encode())
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_cases(run_quern, shared, tmp_path):
    cases = read_cases(shared / "cases" / "json_schema" / "grammars.jsonl")
    assert len(cases) >= 15
    for case in cases:
        flags = flags_of(case, tmp_path)
        if case.get("error"):
            done = run_quern("text", "match", "x", *flags)
            assert done.returncode == (2 if case["kind"] == "regex" else 3), case
            assert done.stderr.startswith(b"quern: ") and done.stdout == b"", case
            continue
        assert match(run_quern, case["accept"], *flags) == [True] * len(case["accept"]), case
        for text, answer in zip(case["reject"], match(run_quern, case["reject"], *flags)):
            assert answer["match"] is False and 0 <= answer["byte"] <= len(text.encode()), case


def test_schema(run_quern, tmp_path):
    path = tmp_path / "schema.json"
    schema = {"type": "object", "properties": {"id": {"type": "string", "pattern": "^[a-z]{2}\\d$"}, "n": {"type": "integer"}},
              "required": ["id"], "additionalProperties": False}
    path.write_text(json.dumps(schema))
    texts = ['{"id": "ab1"}', '{ "n":7,"id":"ab1" }', '{"n": 7}', '{"id": "ab"}', '{"id": "ab1", "x": 1}']
    answers = match(run_quern, texts, "--schema", path)
    assert answers[:2] == [True, True]
    assert all(answer["match"] is False for answer in answers[2:])
    assert answers[3]["byte"] == len('{"id": "ab')
    path.write_text('{"properties": {"a": {"pattern": "(?=a)"}}}')
    done = run_quern("text", "match", "x", "--schema", path)
    assert done.returncode == 3 and b"schema.json: schema: /properties/a" in done.stderr


def test_where_a_text_fails(run_quern):
    answers = match(run_quern, ["é12", "é1x", "é1", "x", "", "é123"], "--regex", "é[0-9]{2}")
    assert answers[0] is True
    assert [answer["byte"] for answer in answers[1:]] == [3, 3, 0, 0, 4]


def test_plain_input(run_quern, tmp_path):
    assert run_quern("text", "match", "ab", "--regex", "a|ab").stdout == b"true\n"
    assert run_quern("text", "match", "--regex", "ab\\n", stdin=b"ab\n").stdout == b"true\n"
    done = run_quern("text", "match", "--regex", ".*", stdin=b"a\xff")
    assert json.loads(done.stdout) == {"match": False, "byte": 1}
    (tmp_path / "choice.json").write_text(json.dumps([f"choice {i * 7919}" for i in range(10000)]))
    done = run_quern("text", "match", f"choice {9999 * 7919}", "--choice", tmp_path / "choice.json")
    assert done.stdout == b"true\n"


def test_lines_that_are_no_strings(run_quern):
    done = run_quern("text", "match", "--jsonl", "--regex", "a", stdin=b"\"a\"\n7\n{\n\"b\"\n")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert answers[0] is True and answers[3] == {"match": False, "byte": 0}
    assert "send a string" in answers[1]["error"] and "error" in answers[2]


@pytest.mark.parametrize("flag, text, message", [
    ("--gbnf", "root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1: rule root is defined twice"),
    ("--lark", "start: /(?=a)/", "line 1, column 8: regex: byte 1: lookahead"),
    ("--choice", "[]", "give an array of strings"),
    ("--choice", "[\"a\", 7]", "item 1 is no string"),
    ("--choice", "[\"a\\u0000b\"]", "item 0 is no string, or has a NUL"),
    ("--choice", "[", "grammar.txt"),
    ("--gbnf", "root ::= \"a\" root", "no text can match"),
])
def test_bad_files(run_quern, tmp_path, flag, text, message):
    path = tmp_path / "grammar.txt"
    path.write_text(text)
    done = run_quern("text", "match", "x", flag, path)
    assert done.returncode == 3
    assert message in done.stderr.decode() and "grammar.txt" in done.stderr.decode()
    assert done.stdout == b""


def test_usage(run_quern, tiny, tmp_path):
    for arguments, text in [
        (["match"], "no grammar: give one of"),
        (["match", "--regex", "a", "--lark", "b"], "several grammars: give one of"),
        (["match", "--regex", "("], "regex: byte 1"),
        (["match", "--regex", "a", "--tokenizer", tiny], "--tokenizer: has no use"),
        (["match", "--regex", "a", "--stream"], "only for decode"),
        (["match", "x", "--regex", "a", "--jsonl"], "--jsonl reads stdin"),
        (["match", "--regex", "a", "--schema", "b"], "several grammars"),
        (["encode", "--tokenizer", tiny, "--regex", "a"], "only for match"),
    ]:
        done = run_quern("text", *arguments)
        assert done.returncode == 2, arguments
        assert text in done.stderr.decode(), arguments
    assert run_quern("text", "match", "x", "--gbnf", tmp_path / "none").returncode in (3, 4)
