"""quern bench decode and prefill: that what they tell adds up, and that they refuse what can't be measured."""

import json
import os
import signal
import subprocess
import time

import pytest

TINY_CONFIG = "tests/data/oracle/tiny-sharded/config.json"
PARTS = {"projections", "absorb", "attend", "expand", "index_scores", "index_choice", "router", "experts", "shared",
         "dense", "head", "rest"}
TINY_LAYERS, TINY_SPARSE = 7, 6


def bench(run_quern, *arguments, env=None):
    done = run_quern("bench", *arguments, "--repeats", "2", "--json", env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check_point(point, told):
    for figure in (point["ms"], point["tokens_per_second"], point["read_share"]):
        assert 0 < figure["min"] <= figure["median"] <= figure["max"]
        assert figure["samples"] == 2
    parts = point["parts"]
    assert set(parts) == PARTS
    for end in ("min", "max"):
        # parts of one sample are no more than the sample; the least ones, and the medians, need not be of one sample
        assert sum(part["ms"]["min"] for part in parts.values()) <= point["ms"][end]
    assert sum(part["flops"] for part in parts.values()) == pytest.approx(point["flops"])
    assert sum(part["bytes"] for part in parts.values()) == pytest.approx(point["bytes"])
    assert (point["bytes"] < point["bytes_unpacked"]) == told["packed"]
    for part in parts.values():
        if part["ms"]["median"] > 0:
            assert part["gflops"] == pytest.approx(part["flops"] / part["ms"]["median"] / 1e6)
            reads = told["limits"]["read_huge_pages_gbps" if told["resident"] else "read_small_pages_gbps"]
            slowest, fastest = part["ms"]["max"], part["ms"]["min"]
            least, most = (part["bytes"] / ms / 1e6 / read for ms, read in (
                (slowest, reads["max"]), (fastest, reads["min"])))
            assert least * 0.5 <= part["read_share"] <= most * 2  # bytes are the mean of samples'


def test_decode_json_and_file_are_the_same(run_quern, tiny, tmp_path):
    told = bench(run_quern, "decode", tiny, "--context", "0,1K", "--batch", "1,3", "--threads", "2", "--out",
                 tmp_path / "decode.json")
    assert told == json.loads((tmp_path / "decode.json").read_text(encoding="utf-8"))
    assert (told["form"], told["bench"], told["synthetic"]) == ("quern-model-speed-1", "decode", False)
    assert (told["layers"], told["sparse_layers"], told["threads"]) == (TINY_LAYERS, TINY_SPARSE, 2)
    assert told["cache"] == "random rows"
    fp32, bf16 = (told["limits"][kind]["median"] for kind in ("fp32_gflops", "bf16_gflops"))
    assert told["limits"]["peak_of"] == ("bf16" if bf16 > fp32 else "fp32")
    assert [(p["context"], p["batch"], p["steps"]) for p in told["points"]] == [
        (0, 1, 1), (0, 3, 1), (1024, 1, 1), (1024, 3, 1)]
    for point in told["points"]:
        check_point(point, told)
    config = json.loads((tiny / "config.json").read_text(encoding="utf-8"))
    taken = config["num_experts_per_tok"]
    assert told["points"][0]["experts_per_layer"] == taken  # one token's experts are all different
    assert taken <= told["points"][1]["experts_per_layer"] <= 3 * taken
    # the weights of a step are the same for three tokens, but for the experts; its work is three times as much
    one, three = told["points"][0]["parts"], told["points"][1]["parts"]
    for name in ("projections", "absorb", "expand", "router", "shared", "dense", "head"):
        assert three[name]["bytes"] == one[name]["bytes"] > 0
        assert three[name]["flops"] == pytest.approx(3 * one[name]["flops"])
    assert three["experts"]["flops"] == pytest.approx(3 * one["experts"]["flops"])
    assert three["experts"]["bytes"] / one["experts"]["bytes"] == pytest.approx(
        told["points"][1]["experts_per_layer"] / taken)


def test_decode_counts_the_bytes_that_it_reads(run_quern, tiny):
    """Packed, BF16 and mapped weights: the same work; of what is packed fewer bytes."""
    ways = {"packed": ("--load", "resident", "--pack-dense", "on"),
            "resident": ("--load", "resident", "--pack-dense", "off"), "mapped": ("--load", "mapped")}
    told = {way: bench(run_quern, "decode", tiny, "--context", "100", "--batch", "1", *flags)
            for way, flags in ways.items()}
    for way, one in told.items():
        assert (one["resident"], one["packed"]) == (way != "mapped", way == "packed")
        check_point(one["points"][0], one)
    points = {way: one["points"][0] for way, one in told.items()}
    assert points["resident"]["bytes"] == points["mapped"]["bytes"] == points["packed"]["bytes_unpacked"]
    for name, part in points["packed"]["parts"].items():
        plain = points["mapped"]["parts"][name]
        assert part["flops"] == plain["flops"]
        if name in ("projections", "router", "shared", "dense", "head"):
            assert 0.74 * plain["bytes"] < part["bytes"] < 0.9 * plain["bytes"]
        else:
            assert part["bytes"] <= plain["bytes"]
    assert points["packed"]["parts"]["experts"]["bytes"] == points["mapped"]["parts"]["experts"]["bytes"]


def test_decode_work_is_the_models(run_quern, tiny):
    """Head, attention's core and the indexer's scores, by their formulas."""
    told = bench(run_quern, "decode", tiny, "--context", "1K", "--batch", "2", env={"QUERN_ISA": "scalar"})
    config = json.loads((tiny / "config.json").read_text(encoding="utf-8"))
    parts = told["points"][0]["parts"]
    assert told["isa"] == "scalar" and told["limits"]["peak_of"] == "fp32" and told["limits"]["bf16_gflops"]["median"] == 0
    assert parts["head"]["flops"] == 2 * 2 * config["vocab_size"] * config["hidden_size"]
    keys, latent, rope = config["index_topk"], config["kv_lora_rank"], config["qk_rope_head_dim"]
    assert keys < 1025
    assert parts["attend"]["flops"] == (2 * 2 * TINY_LAYERS * keys * config["num_attention_heads"]
                                        * (2 * latent + rope))
    assert parts["attend"]["bytes"] == 2 * TINY_LAYERS * keys * (latent + rope) * 4
    indexers = config["indexer_types"].count("full")
    dim = config["index_head_dim"]
    assert parts["index_scores"]["flops"] == 2 * 2 * indexers * 1025 * config["index_n_heads"] * dim
    assert parts["index_scores"]["bytes"] == 2 * indexers * 1025 * dim * 4


def test_drafts_are_rows_of_their_own(run_quern, tiny):
    none, two = (bench(run_quern, "decode", tiny, "--context", "64", "--batch", "2", "--drafts", drafts)
                 for drafts in ("0", "2"))
    assert (none["drafts"], none["max_rows"], two["drafts"], two["max_rows"]) == (0, 2, 2, 6)
    check_point(two["points"][0], two)
    for name in ("projections", "router", "experts", "shared", "dense", "head"):
        one, three = none["points"][0]["parts"][name], two["points"][0]["parts"][name]
        assert three["flops"] == pytest.approx(3 * one["flops"])
        assert three["bytes"] == one["bytes"] or name == "experts"
    # 65, and then 66 and 67 keys
    assert two["points"][0]["parts"]["attend"]["flops"] == pytest.approx(
        none["points"][0]["parts"]["attend"]["flops"] * (65 + 66 + 67) / 65)
    rate = two["points"][0]["tokens_per_second"]["max"] * two["points"][0]["ms"]["min"] / 1e3
    assert rate == pytest.approx(2)


def test_prefill_json(run_quern, tiny):
    told = bench(run_quern, "prefill", tiny, "--prompt", "5,40", "--context", "0,100", "--max-num-batched-tokens",
                 "16")
    assert told["bench"] == "prefill" and told["max_rows"] == 16
    assert [(p["context"], p["prompt"], p["steps"]) for p in told["points"]] == [
        (0, 5, 1), (0, 40, 3), (100, 5, 1), (100, 40, 3)]
    for point in told["points"]:
        check_point(point, told)
    short, long = told["points"][0]["parts"], told["points"][1]["parts"]
    assert long["dense"]["bytes"] == 3 * short["dense"]["bytes"]  # once a step
    assert long["dense"]["flops"] == pytest.approx(8 * short["dense"]["flops"])
    # of the last layer's rows only the one whose logits are told goes beyond what is cached
    before = TINY_SPARSE - 1
    assert long["shared"]["flops"] * (5 * before + 1) == pytest.approx(short["shared"]["flops"] * (40 * before + 1))
    assert long["shared"]["bytes"] * (before + 1) == pytest.approx(
        short["shared"]["bytes"] * (3 * before + 1), rel=1e-3)  # packed layers differ by their exceptions
    assert long["head"]["bytes"] == short["head"]["bytes"] > 0  # the last token's alone


def test_tables(run_quern, tiny):
    for arguments in (["decode", tiny, "--context", "0", "--batch", "2"], ["prefill", tiny, "--prompt", "9"]):
        done = run_quern("bench", *arguments, "--repeats", "1")
        assert done.returncode == 0, done.stderr
        table = done.stdout.decode()
        for words in ("plain read of", "\nweights ", "tokens/s", "attention core", "experts read in a layer", "random rows"):
            assert words in table


def test_a_cache_for_all_experts_misses_nothing(run_quern, tiny):
    """Once it is full: nothing is left to be read, and the time from memory is that of the same tokens again."""
    told = bench(run_quern, "decode", tiny, "--context", "0", "--batch", "2", "--expert-cache", "1G")
    assert told["expert_cache"]["room"] == told["expert_cache"]["experts"]
    point = told["points"][0]["expert_cache"]
    assert point["memory_estimates"] == 0
    assert point["needed"] >= point["hits"] > 0
    assert point["missed_bytes"] == pytest.approx(point["read_bytes"], rel=0.5)  # none, or the last few there were


def test_a_prompt_beyond_the_cache_has_an_estimate(run_quern, tiny):
    """Its experts are never in memory all at once."""
    told = bench(run_quern, "prefill", tiny, "--context", "0", "--prompt", "64", "--expert-cache", "1280K")
    point = told["points"][0]["expert_cache"]
    assert told["expert_cache"]["room"] < told["expert_cache"]["experts"]
    assert point["memory_estimates"] == 2 and point["missed_bytes"] > 0 and point["memory_ms"]["min"] > 0


def test_defaults_leave_out_what_the_model_cannot_hold(run_quern, tiny, tmp_path):
    """A context of 16K: 32K is left out, and it says so."""
    done = run_quern("bench", "decode", "--synthetic", TINY_CONFIG, "--batch", "1", "--repeats", "1", "--json",
                     env={"TMPDIR": str(tmp_path)})
    assert done.returncode == 2 and b"--context: 32768 tokens" in done.stderr
    done = run_quern("bench", "decode", "--synthetic", TINY_CONFIG, "--repeats", "1", "--json",
                     env={"TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert b"5 of 15 settings are left out: the model's context is 16384" in done.stderr
    assert {p["context"] for p in json.loads(done.stdout)["points"]} == {0, 4096}
    assert list(tmp_path.iterdir()) == []


def test_synthetic_is_removed(run_quern, tmp_path):
    env = {"TMPDIR": str(tmp_path)}
    told = bench(run_quern, "prefill", "--synthetic", TINY_CONFIG, "--layers", "3", "--sparse-from", "1", "--vocab",
                 "200", "--prompt", "12", env=env)
    assert (told["layers"], told["sparse_layers"], told["synthetic"]) == (3, 2, True)
    assert told["model"] == TINY_CONFIG
    assert list(tmp_path.iterdir()) == []


def test_a_signal_removes_the_synthetic_model(quern_bin, tmp_path):
    bench_run = subprocess.Popen(
        [quern_bin, "bench", "decode", "--synthetic", TINY_CONFIG, "--context", "0", "--repeats", "64"],
        env={**os.environ, "TMPDIR": str(tmp_path)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("*/config.json")) and time.monotonic() < deadline:
        assert bench_run.poll() is None, bench_run.stderr.read()
        time.sleep(0.01)
    bench_run.send_signal(signal.SIGINT)
    out, err = bench_run.communicate(timeout=60)
    assert (bench_run.returncode, out) == (1, b"")
    assert b"bench: stopped" in err
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_room(run_quern, tmp_path):
    """The real dimensions with all layers take more than any disk that tests run on."""
    done = run_quern("bench", "decode", "--synthetic", "tests/data/glm-5.3/config.json", "--layers", "78",
                     env={"TMPDIR": str(tmp_path)})
    assert (done.returncode, done.stdout) == (4, b"")
    assert b"bytes free and this takes" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments, code, words", [
    (["decode", "{tiny}", "--context", "1M"], 2, "the model's context is"),
    (["prefill", "{tiny}", "--prompt", "1M"], 2, "the model's context is"),
    (["decode", "{tiny}", "--batch", "0"], 2, "--batch: '0': give 1 to 8 numbers from 1 to 1024"),
    (["decode", "{tiny}", "--batch", "1,,2"], 2, "--batch: '1,,2'"),
    (["decode", "{tiny}", "--batch", "1,2,3,4,5,6,7,8,9"], 2, "give 1 to 8 numbers"),
    (["prefill", "{tiny}", "--prompt", "12x"], 2, "--prompt: '12x'"),
    (["prefill", "{tiny}", "--prompt", ""], 2, "--prompt: ''"),
    (["prefill", "{tiny}", "--max-num-batched-tokens", "0"], 2, "max-num-batched-tokens"),
    (["decode", "{tiny}", "--repeats", "0"], 2, "repeats"),
    (["decode", "{tiny}", "--load", "mapped", "--pack-dense", "on"], 2, "--pack-dense: on: mapped weights"),
    (["prefill", "{tiny}", "--load", "disk"], 2, "--load: disk: give auto, resident or mapped"),
    (["decode", "{tiny}", "--layers", "2"], 2, "--layers: MODEL_DIR is measured as it is"),
    (["decode", "{tiny}", "--synthetic", TINY_CONFIG], 2, "--synthetic: two models"),
    (["decode"], 2, "no model: give MODEL_DIR, or --synthetic CONFIG"),
    (["prefill", "{tiny}", "--batch", "2"], 2, "--batch"),
    (["decode", "{tiny}/absent"], 3, "absent"),
    (["decode", "--synthetic", "{tiny}/absent.json"], 3, "absent.json"),
    (["decode", "--synthetic", TINY_CONFIG, "--layers", "99"], 2, "layers"),
])
def test_refused(run_quern, tiny, arguments, code, words):
    done = run_quern("bench", *(word.format(tiny=tiny) for word in arguments))
    assert (done.returncode, done.stdout) == (code, b""), done.stderr
    assert words.encode() in done.stderr
