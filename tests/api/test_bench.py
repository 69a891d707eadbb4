"""quern bench: that it measures, says what it measured, and refuses what it can't."""

import json

import pytest


def test_hw_json_and_file_are_the_same(run_quern, tmp_path):
    done = run_quern("bench", "hw", "--seconds", "0.1", "--json", "--out", tmp_path / "hw.json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told == json.loads((tmp_path / "hw.json").read_text(encoding="utf-8"))
    assert told["form"] == "quern-hw-1"
    assert [read["threads"] for read in told["memory_read"]][-1] == told["threads"]
    for name in ("fp32", "mxfp4_rows_1", "bf16_rows_1", "mxfp4_rows_64", "bf16_rows_8", "attention_2048_keys", "loop"):
        figure = told["figures"][name]
        assert 0 < figure["min"] <= figure["median"] <= figure["max"], name
        assert figure["samples"] >= 3
    assert "disk_random" not in told["figures"]


def test_hw_table(run_quern):
    done = run_quern("bench", "hw", "--seconds", "0.1")
    assert done.returncode == 0, done.stderr
    table = done.stdout.decode()
    for words in ("plain read, 1 thread, 4 KiB pages", "MXFP4 weights, 1 row", "BF16 weights, 64 rows",
                  "attention core, 2048 keys"):
        assert words in table
    assert "####" in table


def test_hw_disk_that_is_not_there(run_quern, tmp_path):
    done = run_quern("bench", "hw", "--seconds", "0.1", "--disk", tmp_path / "absent")
    assert done.returncode == 4
    assert b"absent: open: No such file or directory" in done.stderr
    assert done.stdout == b""


@pytest.mark.parametrize("name", ["kernels"])
def test_later_benches_say_so(run_quern, name):
    done = run_quern("bench", name)
    assert (done.returncode, done.stdout) == (2, b"")
    assert f"bench {name}: not in this version".encode() in done.stderr


GRAMMARS = [
    {"name": "flat", "schema": {"type": "object", "properties": {"a": {"type": "string"}}}, "accept": ['{"a": "b c"}']},
    {"schema": {"type": "integer"}, "tests": [{"data": 12, "valid": True}, {"data": "x", "valid": False}]},
    {"kind": "regex", "grammar": "a+", "accept": ["aaa", "aab"]},
    {"kind": "gbnf", "grammar": "root ::= missing"},
]


def test_grammar_json(run_quern, tmp_path, tiny):
    (tmp_path / "g.jsonl").write_text("".join(json.dumps(g) + "\n" for g in GRAMMARS))
    done = run_quern("bench", "grammar", tiny, tmp_path / "g.jsonl", "--walks", "1", "--walk-tokens", "4", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [g["name"] for g in told["grammars"]] == ["flat", "g.jsonl: line 2", "g.jsonl: line 3"]
    assert [g["longer"] for g in told["grammars"]] == [0, 0, 1]
    assert told["refused"] == 1 and told["compile"]["count"] == 4
    assert told["first"]["count"] == told["again"]["count"] == sum(g["first"]["count"] for g in told["grammars"]) > 9
    for figure in (told["compile"], told["first"], told["again"]):
        assert 0 < figure["min_us"] <= figure["median_us"] <= figure["p99_us"] <= figure["max_us"]


def test_grammar_table(run_quern, tmp_path, tiny):
    (tmp_path / "g.jsonl").write_text("".join(json.dumps(g) + "\n" for g in GRAMMARS))
    done = run_quern("bench", "grammar", tiny / "tokenizer.json", tmp_path / "g.jsonl")
    assert done.returncode == 0, done.stderr
    table = done.stdout.decode()
    for words in ("3 grammars over", "1 more were refused", "masks the first time, us", "\n  flat "):
        assert words in table


def test_grammar_line_that_is_none(run_quern, tmp_path, tiny):
    (tmp_path / "g.jsonl").write_text('{"schema": {}}\n\n{"kind": "regex"}\n')
    done = run_quern("bench", "grammar", tiny, tmp_path / "g.jsonl")
    assert (done.returncode, done.stdout) == (3, b"")
    assert b"g.jsonl: line 3: no grammar: give an object" in done.stderr


def test_usage(run_quern):
    assert run_quern("bench").returncode == 2
    assert b"usage: quern bench BENCH" in run_quern("bench", "--help").stdout
    assert b"--seconds" in run_quern("bench", "hw", "--help").stdout
    for arguments in (["hv"], ["hw", "extra"], ["hw", "--seconds", "0"], ["hw", "--secnds", "1"],
                      ["grammar"], ["grammar", "models/quern-tiny"]):
        assert run_quern("bench", *arguments).returncode == 2
