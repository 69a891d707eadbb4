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


def test_kernels_json_and_file_are_the_same(run_quern, tmp_path):
    done = run_quern("bench", "kernels", "--rows", "1,2", "--kernel", "matmul_mxfp4", "--kernel", "attend", "--kernel",
                     "topk", "--repeats", "2", "--json", "--out", tmp_path / "kernels.json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told == json.loads((tmp_path / "kernels.json").read_text(encoding="utf-8"))
    assert told["form"] == "quern-kernel-speed-1"
    isas = list(dict.fromkeys(figure["isa"] for figure in told["kernels"]))
    assert isas[-1] == "scalar"
    of_best = [figure for figure in told["kernels"] if figure["isa"] == isas[0]]
    assert [(f["kernel"], f["cols"], f["outputs"], f["rows"], f["keys"]) for f in of_best] == [
        ("matmul_mxfp4", 6144, 2048, 1, 0), ("matmul_mxfp4", 6144, 2048, 2, 0), ("matmul_mxfp4", 2048, 6144, 1, 0),
        ("matmul_mxfp4", 2048, 6144, 2, 0), ("attend", 576, 64, 1, 2048), ("topk", 0, 0, 1, 4096),
        ("topk", 0, 0, 1, 32768)]
    assert len(told["kernels"]) == len(isas) * len(of_best)
    measured = {"matmul_mxfp4": {"gbps", "read_share", "gflops", "peak_share"}, "attend": {"gflops", "peak_share"},
                "topk": {"mkeys"}}
    for figure in told["kernels"]:
        for name in ("gbps", "read_share", "gflops", "peak_share", "mkeys"):
            if name not in measured[figure["kernel"]]:
                assert figure[name] is None
                continue
            assert 0 < figure[name]["min"] <= figure[name]["median"] <= figure[name]["max"]
            assert figure[name]["samples"] == 2
    assert told["limits"]["read_small_pages_gbps"]["samples"] == 2 * len(told["kernels"])
    assert told["limits"]["fp32_gflops"]["median"] > 0  # the scalar table's


def test_kernels_table(run_quern):
    done = run_quern("bench", "kernels", "--isa", "scalar", "--rows", "1", "--kernel", "transposed", "--kernel",
                     "index_scores", "--repeats", "1", "--threads", "1")
    assert done.returncode == 0, done.stderr
    table = done.stdout.decode()
    for words in ("1 thread; cold weights from", "\nscalar ", "512 x 192, 1 row ", "32 heads, 32768 keys",
                  "plain read, 2 MiB pages, as the weights have"):
        assert words in table


@pytest.mark.parametrize("arguments, words", [
    (["--kernel", "matmul"], "--kernel: 'matmul': give matmul_mxfp4, matmul_bf16"),
    (["--isa", "sse2"], "sse2"),
    (["--rows", "513"], "--rows: '513': give 1 to 8 numbers from 1 to 512"),
    (["--rows", "0"], "--rows: '0'"),
    (["--repeats", "0"], "repeats"),
    (["extra"], "extra"),
])
def test_kernels_refused(run_quern, arguments, words):
    done = run_quern("bench", "kernels", *arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert words.encode() in done.stderr


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


def test_grammar_of_a_padded_vocabulary(run_quern, tmp_path, tiny):
    (tmp_path / "g.jsonl").write_text(json.dumps(GRAMMARS[0]) + "\n")
    done = run_quern("bench", "grammar", tiny, tmp_path / "g.jsonl", "--vocab", "154880", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["tokens"] == 154880
    done = run_quern("bench", "grammar", tiny, tmp_path / "g.jsonl", "--vocab", "3")
    assert done.returncode == 2 and b"give at least as many" in done.stderr


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
