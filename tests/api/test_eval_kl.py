"""quern eval kl: the divergence of two checkpoints against their logits, and what it refuses."""

import json
import math
import struct

import pytest

from test_eval import TEXT, dump, nll_of, perplexity


def rewrite_weights(source, target, edit):
    """Copies a model's folder with edit(name, dtype, shape, bytes) -> (shape, bytes) of every tensor; None drops it."""
    target.mkdir()
    for path in source.iterdir():
        if path.is_file() and path.name != "model.safetensors":
            (target / path.name).write_bytes(path.read_bytes())
    data = (source / "model.safetensors").read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header, out = {}, bytearray()
    for name, entry in json.loads(data[8:8 + length]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            edited = edit(name, entry["dtype"], entry["shape"], data[8 + length + begin:8 + length + end])
            if edited is None:
                continue
            shape, content = edited
            header[name] = {"dtype": entry["dtype"], "shape": shape,
                            "data_offsets": [len(out), len(out) + len(content)]}
            out += content
    text = json.dumps(header).encode()
    (target / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + out)


@pytest.fixture(scope="module")
def coarse(tiny, tmp_path_factory):
    """The shipped model with three bits of mantissa in its experts."""

    def cut(name, dtype, shape, content):
        if ".mlp.experts." in name and dtype == "BF16":
            content = bytes(b & 0xF0 if i % 2 == 0 else b for i, b in enumerate(content))
        return shape, content

    folder = tmp_path_factory.mktemp("kl") / "coarse"
    rewrite_weights(tiny, folder, cut)
    return folder


def divergence(run_quern, a, b, *flags, stdin=TEXT.encode()):
    done = run_quern("eval", "kl", a, b, "--json", *flags, stdin=stdin, env={"QUERN_ISA": "scalar"})
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def log_softmax(values):
    largest = max(values)
    lse = largest + math.log(math.fsum(math.exp(v - largest) for v in values))
    return [v - lse for v in values]


def test_divergence_equals_that_of_the_logits(run_quern, tiny, coarse, tmp_path):
    text = TEXT[:300]
    ids = json.loads(run_quern("text", "encode", "--tokenizer", tiny, "--jsonl",
                               stdin=json.dumps(text).encode()).stdout)
    dumps = [dump(run_quern, tmp_path, model, ids)["logits"] for model in (tiny, coarse)]
    width = dumps[0][1][1]
    kls, same = [], 0
    for row in range(len(ids) - 1):
        a, b = (values[row * width:(row + 1) * width] for _, _, values in dumps)
        same += a.index(max(a)) == b.index(max(b))
        kls.append(math.fsum(math.exp(p) * (p - q) for p, q in zip(log_softmax(a), log_softmax(b))))
    got = divergence(run_quern, tiny, coarse, stdin=text.encode())
    n = len(kls)
    ordered = sorted(kls)
    assert got["scored"] == n and got["tokens"] == len(ids) and got["windows"] == 1
    assert got["mean_kl"] == pytest.approx(math.fsum(kls) / n, abs=1e-9)
    assert got["median_kl"] == pytest.approx((ordered[(n - 1) // 2] + ordered[n // 2]) / 2, abs=1e-9)
    assert got["p99_kl"] == pytest.approx(ordered[math.ceil(0.99 * n) - 1], abs=1e-9)
    assert got["max_kl"] == pytest.approx(ordered[-1], abs=1e-9)
    assert got["top1_agreement"] == pytest.approx(same / n)
    for side, (_, _, values) in zip("ab", dumps):
        nll = math.fsum(nll_of(values, width, row, ids[row + 1]) for row in range(n)) / n
        assert got[f"mean_nll_{side}"] == pytest.approx(nll, abs=1e-6)
        assert got[f"perplexity_{side}"] == pytest.approx(math.exp(nll), rel=1e-6)
    edges = [b["from"] for b in got["histogram"]] + [math.inf]
    for bin_, begin, end in zip(got["histogram"], edges, edges[1:]):
        assert bin_["positions"] == sum(begin <= kl < end for kl in kls), bin_
    assert got["mean_kl"] > 1e-4  # the models do differ


def test_a_model_is_exactly_no_distance_from_itself(run_quern, tiny):
    got = divergence(run_quern, tiny, tiny, "--context", "64", "--stride", "40")
    assert [got[key] for key in ("mean_kl", "mean_kl_error", "median_kl", "p99_kl", "max_kl")] == [0.0] * 5
    assert got["top1_agreement"] == 1.0
    assert (got["context"], got["stride"]) == (64, 40)


def test_windows_and_perplexities_are_those_of_eval_ppl(run_quern, tiny, coarse):
    flags = ("--context", "64", "--stride", "40")
    got = divergence(run_quern, tiny, coarse, *flags)
    for side, model in (("a", tiny), ("b", coarse)):
        alone = perplexity(run_quern, model, *flags)
        assert got[f"perplexity_{side}"] == pytest.approx(alone["perplexity"], rel=1e-12)
        assert (got["windows"], got["scored"]) == (alone["windows"], alone["scored"])


def test_threads_and_chunks_change_nothing(run_quern, tiny, coarse):
    first = divergence(run_quern, tiny, coarse, "--threads", "1")
    assert first == divergence(run_quern, tiny, coarse, "--threads", "3", "--max-num-batched-tokens", "19")


def test_the_lines_for_people(run_quern, tiny, coarse, tmp_path):
    (tmp_path / "text").write_text(TEXT)
    done = run_quern("eval", "kl", tiny, coarse, "--text", tmp_path / "text")
    assert done.returncode == 0
    lines = done.stdout.decode().splitlines()
    assert lines[0].startswith("KL(A || B)") and "mean" in lines[0]
    assert lines[1].startswith("top-1 agreement 0.9")
    assert sum(int(line.split()[1]) for line in lines[lines.index("positions by KL, from") + 1:]) == int(
        lines[3].split()[1])
    assert b"memory: comparing takes" in done.stderr


def test_vocabularies_of_two_sizes(run_quern, tiny, tmp_path):
    def widen(name, _dtype, shape, content):
        if name in ("model.embed_tokens.weight", "lm_head.weight"):
            return [shape[0] + 32, shape[1]], content + bytes(64 * shape[1])
        return shape, content

    rewrite_weights(tiny, tmp_path / "wide", widen)
    config = json.loads((tmp_path / "wide" / "config.json").read_text())
    (tmp_path / "wide" / "config.json").write_text(json.dumps({**config, "vocab_size": config["vocab_size"] + 32}))
    done = run_quern("eval", "kl", tiny, tmp_path / "wide", stdin=TEXT.encode())
    assert done.returncode == 3
    assert b"quern-tiny" in done.stderr and b"/wide: their vocab_size is 1536 and 1568" in done.stderr


def test_two_tokenizers(run_quern, tiny, tmp_path):
    rewrite_weights(tiny, tmp_path / "other", lambda name, dtype, shape, content: (shape, content))
    tokenizer = json.loads((tiny / "tokenizer.json").read_text())
    tokenizer["model"]["merges"] = tokenizer["model"]["merges"][:100]
    (tmp_path / "other" / "tokenizer.json").write_text(json.dumps(tokenizer))
    done = run_quern("eval", "kl", tiny, tmp_path / "other", stdin=TEXT.encode())
    assert done.returncode == 3
    assert b"their tokenizers read the text differently from token " in done.stderr
    assert b"quern-tiny" in done.stderr and b"/other" in done.stderr


@pytest.mark.parametrize("flags, stdin, code, message", [
    ([], b"", 3, b"at least two"),
    ([], b"\xff\xfe", 2, b"UTF-8"),
    (["--stride", "4096", "--context", "100"], b"hello there, this is text", 2, b"stride"),
    (["--context", "9000"], b"x", 2, b"--context: 9000 is out of range"),
    (["--text", "/nonexistent"], b"", 3, b"/nonexistent"),
    (["third"], b"x", 2, b"third"),
])
def test_refusals(run_quern, tiny, flags, stdin, code, message):
    done = run_quern("eval", "kl", tiny, tiny, *flags, stdin=stdin)
    assert (done.returncode, message in done.stderr) == (code, True), done.stderr.decode()


def test_models_that_are_not_there(run_quern, tiny):
    assert run_quern("eval", "kl", tiny, stdin=b"x").returncode == 2
    for pair in ((tiny, "/nonexistent"), ("/nonexistent", tiny)):
        done = run_quern("eval", "kl", *pair, stdin=TEXT.encode())
        assert done.returncode == 3 and b"/nonexistent" in done.stderr
