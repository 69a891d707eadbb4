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


@pytest.mark.parametrize("name", ["kernels", "decode", "prefill"])
def test_later_benches_say_so(run_quern, name):
    done = run_quern("bench", name)
    assert (done.returncode, done.stdout) == (2, b"")
    assert f"bench {name}: not in this version".encode() in done.stderr


def test_usage(run_quern):
    assert run_quern("bench").returncode == 2
    assert b"usage: quern bench BENCH" in run_quern("bench", "--help").stdout
    assert b"--seconds" in run_quern("bench", "hw", "--help").stdout
    for arguments in (["hv"], ["hw", "extra"], ["hw", "--seconds", "0"], ["hw", "--secnds", "1"]):
        assert run_quern("bench", *arguments).returncode == 2
