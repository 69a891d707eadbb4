"""From measured inputs to weights: eval ppl --collect, convert --importance, and what that does to each block."""

import array
import json
import math
import struct

import pytest

from test_eval import TEXT, read_safetensors

EXPERTS, PRIOR_TOKENS = 16, 32
E2M1 = [0, .5, 1, 1.5, 2, 3, 4, 6, -0.0, -.5, -1, -1.5, -2, -3, -4, -6]
PROJECTIONS = {"gate_proj": "gate_up", "up_proj": "gate_up", "down_proj": "down"}
LAYERS = (3, 7)  # the last is the MTP layer


def read_raw(folder):
    """name -> (shape, bytes) of all tensors of a folder's files."""
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        (length,) = struct.unpack_from("<Q", data)
        for name, entry in json.loads(data[8:8 + length]).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                tensors[name] = (entry["shape"], data[8 + length + begin:8 + length + end])
    return tensors


def originals(tensors, base):
    _, content = tensors[base + ".weight"]
    return array.array("f", array.array("I", [b << 16 for b in array.array("H", content)]).tobytes())


def dequantised(tensors, base):
    codes, scales = (tensors[f"{base}.weight_{part}"][1] for part in ("packed", "scale"))
    values = []
    for i, code in enumerate(codes):
        scale = math.ldexp(1.0, scales[i // 16] - 127)
        values += [E2M1[code & 15] * scale, E2M1[code >> 4] * scale]
    return values


def smoothed(sums, counts, expert):
    """What checkpoint/importance.h says."""
    cols = len(sums) // EXPERTS
    mean = [math.fsum(sums[i::cols]) / sum(counts) for i in range(cols)]
    w = [(s + PRIOR_TOKENS * m) / (counts[expert] + PRIOR_TOKENS)
         for s, m in zip(sums[expert * cols:(expert + 1) * cols], mean)]
    return [v * cols / math.fsum(w) for v in w]


def block_errors(original, quantised, weights):
    cols = len(weights)
    errors = [(a - b) ** 2 * weights[i % cols] for i, (a, b) in enumerate(zip(original, quantised))]
    return [math.fsum(errors[i:i + 32]) for i in range(0, len(errors), 32)]


@pytest.fixture(scope="module")
def work(run_quern, tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("importance")
    (folder / "text").write_text(TEXT)
    for arguments in (("eval", "ppl", tiny, "--text", folder / "text", "--collect", folder / "importance"),
                      ("convert", tiny, folder / "plain"),
                      ("convert", tiny, folder / "weighted", "--importance", folder / "importance")):
        done = run_quern(*arguments)
        assert done.returncode == 0, done.stderr.decode()
    return folder


def test_no_block_has_a_larger_weighted_error_than_by_default(tiny, work):
    source, plain, weighted = (read_raw(f) for f in (tiny, work / "plain", work / "weighted"))
    importance = read_safetensors(work / "importance")
    totals = [0.0, 0.0]
    for layer in LAYERS:
        prefix = f"model.layers.{layer}.mlp.experts"
        counts = importance[f"{prefix}.tokens"][2]
        for expert in range(EXPERTS):
            for projection, what in PROJECTIONS.items():
                base = f"{prefix}.{expert}.{projection}"
                weights = smoothed(importance[f"{prefix}.{what}.input_sq_sum"][2], counts, expert)
                original = originals(source, base)
                before, after = (block_errors(original, dequantised(t, base), weights) for t in (plain, weighted))
                for i, (old, new) in enumerate(zip(before, after)):
                    assert new <= old * (1 + 1e-4), f"{base}: block {i}"
                totals = [totals[0] + math.fsum(before), totals[1] + math.fsum(after)]
    assert totals[1] < 0.998 * totals[0]


def test_all_but_the_experts_is_the_same(work):
    plain, weighted = read_raw(work / "plain"), read_raw(work / "weighted")
    different = {name for name in plain if plain[name] != weighted[name]}
    assert set(plain) == set(weighted)
    assert different and all(".mlp.experts." in name for name in different)


def test_a_conversion_is_close_to_its_source(run_quern, tiny, work):
    for converted in ("plain", "weighted"):
        done = run_quern("eval", "kl", tiny, work / converted, "--json", stdin=TEXT.encode())
        assert 0 < json.loads(done.stdout)["mean_kl"] < 0.1


def test_workers_need_the_same_file(run_quern, tiny, work, tmp_path):
    (tmp_path / "text").write_text(TEXT[::-1])
    other = tmp_path / "other"
    assert run_quern("eval", "ppl", tiny, "--text", tmp_path / "text", "--collect", other).returncode == 0
    first = run_quern("convert", tiny, tmp_path / "out", "--layers", "1-2", "--importance", work / "importance")
    assert first.returncode == 0
    for flags in ((), ("--importance", other)):
        done = run_quern("convert", tiny, tmp_path / "out", "--layers", "3-4", *flags)
        assert done.returncode == 2 and b"importance" in done.stderr


@pytest.mark.parametrize("name, flags, code, message", [
    ("nothing", [], 3, b"no such file"),
    ("cut", [], 3, b"truncated or damaged"),
    ("weights", [], 3, b"collect it anew"),
    ("importance", ["--rtn"], 2, b"--importance"),
])
def test_refusals(run_quern, tiny, work, tmp_path, name, flags, code, message):
    good = (work / "importance").read_bytes()
    (tmp_path / "importance").write_bytes(good)
    (tmp_path / "cut").write_bytes(good[:-1000])
    (tmp_path / "weights").write_bytes((tiny / "model.safetensors").read_bytes())
    done = run_quern("convert", tiny, tmp_path / "out", "--importance", tmp_path / name, *flags)
    assert (done.returncode, message in done.stderr) == (code, True), done.stderr.decode()
    assert not (tmp_path / "out").exists()
