"""quern eval ppl --collect: the second moments against what the weights say, and what it refuses."""

import array
import json
import math
import struct

import pytest

from conftest import ROOT
from test_eval import TEXT, dump, perplexity, read_safetensors
from test_eval_kl import rewrite_weights

EXPERTS, TAKEN, HIDDEN, INNER, MTP = 16, 4, 128, 64, 7
NAMES = ("gate_up.input_sq_sum", "down.input_sq_sum", "tokens")


def name_of(layer, what):
    return f"model.layers.{layer}.mlp.experts.{what}"


def collect(run_quern, model, out, *flags, stdin=TEXT.encode()):
    done = run_quern("eval", "ppl", model, "--json", "--collect", out, *flags, stdin=stdin,
                     env={"QUERN_ISA": "scalar"})
    assert done.returncode == 0, done.stderr.decode()
    assert b"memory: second moments" in done.stderr and b"collect: " in done.stderr
    return json.loads(done.stdout), read_safetensors(out)


def read_bf16(model):
    """name -> values of the model's BF16 tensors, on demand."""
    data = (model / "model.safetensors").read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])

    def tensor(name):
        begin, end = header[name]["data_offsets"]
        bits = array.array("H", data[8 + length + begin:8 + length + end])
        return array.array("f", array.array("I", [b << 16 for b in bits]).tobytes())

    return tensor


def rows_of(flat, width):
    return [flat[i:i + width] for i in range(0, len(flat), width)]


def product(matrix, x):
    return [math.fsum(w * v for w, v in zip(row, x)) for row in matrix]


def test_sums_are_those_of_the_experts_inputs(run_quern, tiny, tmp_path):
    """Two layers by hand: the norm of the residual stream behind the attention, and silu(gate h) * up h, each scaled to a
    mean square of 1."""
    text = TEXT[:120]
    ids = json.loads(run_quern("text", "encode", "--tokenizer", tiny, "--jsonl",
                               stdin=json.dumps(text).encode()).stdout)
    inner = dump(run_quern, tmp_path, tiny, ids, "--hidden", "--mtp")
    result, got = collect(run_quern, tiny, tmp_path / "importance", stdin=text.encode())
    weights = read_bf16(tiny)
    eps = json.loads((tiny / "config.json").read_text())["rms_norm_eps"]
    assert result["scored"] == len(ids) - 1
    for layer in (1, 5):
        before = rows_of(inner[f"hidden.{layer - 1}"][2], HIDDEN)
        branch = rows_of(inner[f"attn.{layer}"][2], HIDDEN)
        taken = rows_of(inner[f"router_experts.{layer}"][2], TAKEN)
        norm = weights(f"model.layers.{layer}.post_attention_layernorm.weight")
        prefix = f"model.layers.{layer}.mlp.experts"
        gate_up = [[0.0] * HIDDEN for _ in range(EXPERTS)]
        down = [[0.0] * INNER for _ in range(EXPERTS)]
        tokens = [0] * EXPERTS
        matrices = {}
        for row in range(len(ids) - 1):
            x = [a + b for a, b in zip(before[row], branch[row])]
            scale = 1 / math.sqrt(math.fsum(v * v for v in x) / HIDDEN + eps)
            h = [v * scale * w for v, w in zip(x, norm)]
            for expert in taken[row]:
                if expert not in matrices:
                    matrices[expert] = [rows_of(weights(f"{prefix}.{expert}.{p}_proj.weight"), HIDDEN)
                                        for p in ("gate", "up")]
                gate, up = (product(m, h) for m in matrices[expert])
                tokens[expert] += 1
                products = [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)]
                for sums, inputs in ((gate_up[expert], h), (down[expert], products)):
                    mean_square = math.fsum(v * v for v in inputs) / len(inputs)
                    for i, v in enumerate(inputs):
                        sums[i] += v * v / mean_square
        assert got[name_of(layer, "tokens")] == ("F32", [EXPERTS], array.array("f", tokens))
        for what, wanted in (("gate_up", gate_up), ("down", down)):
            dtype, shape, values = got[name_of(layer, f"{what}.input_sq_sum")]
            assert (dtype, shape) == ("F32", [EXPERTS, len(wanted[0])])
            flat = [v for row in wanted for v in row]
            assert list(values) == pytest.approx(flat, rel=2e-4, abs=1e-4 * max(flat) / 100)
    # The MTP layer's router took these, teacher-forced.
    chosen = list(inner["mtp_router_experts"][2])[:TAKEN * (len(ids) - 1)]
    assert list(got[name_of(MTP, "tokens")][2]) == [chosen.count(e) for e in range(EXPERTS)]


def test_the_file_has_every_sparse_layer_and_each_position_once(run_quern, tiny, tmp_path):
    result, got = collect(run_quern, tiny, tmp_path / "importance", "--context", "64", "--stride", "40")
    assert set(got) == {name_of(layer, what) for layer in range(1, MTP + 1) for what in NAMES}
    assert result["windows"] > 2
    for layer in range(1, MTP + 1):
        assert sum(got[name_of(layer, "tokens")][2]) == TAKEN * result["scored"]
    assert result == perplexity(run_quern, tiny, "--context", "64", "--stride", "40")


def test_quantised_models_may_be_collected_from(run_quern, tmp_path, tiny):
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "model.safetensors"):
        (folder / name).write_bytes((ROOT / "tests/data/oracle/tiny-sparse-mxfp4-ct" / name).read_bytes())
    config = json.loads((folder / "config.json").read_text())
    vocabulary = json.loads((tiny / "tokenizer.json").read_text())
    if config["vocab_size"] < len(vocabulary["model"]["vocab"]) + len(vocabulary["added_tokens"]):
        vocabulary["model"]["vocab"] = {t: i for t, i in vocabulary["model"]["vocab"].items()
                                        if i < 256 and i < config["vocab_size"]}
        vocabulary["model"]["merges"] = []
        vocabulary["added_tokens"] = []
    (folder / "tokenizer.json").write_text(json.dumps(vocabulary))
    for name in ("tokenizer_config.json", "chat_template.jinja"):
        (folder / name).write_bytes((tiny / name).read_bytes())
    _, got = collect(run_quern, folder, tmp_path / "importance", "--context", "100")
    assert got


def test_a_token_counts_as_much_as_any_other(run_quern, tiny, tmp_path):
    """Whatever the size of its activations: those of one layer's experts are made 2^68 times as large here."""

    def blow_up(name, dtype, shape, content):
        by = {"gate_proj": 34, "up_proj": 34, "down_proj": -68}.get(name.split(".")[-2])
        if name.startswith("model.layers.2.mlp.experts.") and by is not None and dtype == "BF16":
            bits = array.array("H", content)
            content = array.array("H", [b if b & 0x7F80 == 0 else b + by * 128 if (b >> 7 & 0xFF) + by > 0 else 0
                                        for b in bits]).tobytes()
        return shape, content

    rewrite_weights(tiny, tmp_path / "large", blow_up)
    _, got = collect(run_quern, tmp_path / "large", tmp_path / "importance")
    for layer in range(1, MTP + 1):
        tokens = got[name_of(layer, "tokens")][2]
        for what, cols in (("gate_up", HIDDEN), ("down", INNER)):
            sums = got[name_of(layer, f"{what}.input_sq_sum")][2]
            for expert in range(EXPERTS):
                total = math.fsum(sums[expert * cols:(expert + 1) * cols])
                assert total == pytest.approx(cols * tokens[expert], rel=1e-5)


def test_a_model_without_experts(run_quern, tiny, tmp_path):
    rewrite_weights(tiny, tmp_path / "dense", lambda name, dtype, shape, content:
                    (shape, content) if ".layers." not in name or ".layers.0." in name else None)
    config = json.loads((tiny / "config.json").read_text())
    config.update(num_hidden_layers=1, num_nextn_predict_layers=0, mlp_layer_types=["dense"], indexer_types=["full"])
    (tmp_path / "dense" / "config.json").write_text(json.dumps(config))
    done = run_quern("eval", "ppl", tmp_path / "dense", "--collect", tmp_path / "out", stdin=TEXT.encode())
    assert (done.returncode, b"--collect: the model has no routed experts" in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "out").exists()


def test_an_input_is_never_replaced(run_quern, tiny, tmp_path):
    text = tmp_path / "text"
    text.write_text(TEXT)
    rewrite_weights(tiny, tmp_path / "model", lambda name, dtype, shape, content: (shape, content))
    weights = (tmp_path / "model" / "model.safetensors").read_bytes()
    for out in (text, tmp_path / "model" / "model.safetensors"):
        done = run_quern("eval", "ppl", tmp_path / "model", "--text", text, "--collect", out)
        assert done.returncode == 2 and b"--collect" in done.stderr and b"input of this command" in done.stderr
    assert text.read_text() == TEXT and (tmp_path / "model" / "model.safetensors").read_bytes() == weights


@pytest.mark.parametrize("flags, stdin, code, message", [
    (["--collect", "/nonexistent/x"], TEXT.encode(), 3, b"/nonexistent"),
    (["--collect", "OUT"], b"", 3, b"at least two"),
    (["--collect", "OUT", "--context", "2000000000"], b"some text", 2, b"--context"),
    (["--collect", "OUT", "--stride", "4096", "--context", "100"], b"some text", 2, b"stride"),
    (["--collect", "DIR"], b"some text", 2, b"regular file"),
    (["--collect"], b"some text", 2, b"--collect"),
])
def test_refusals(run_quern, tiny, tmp_path, flags, stdin, code, message):
    names = {"OUT": str(tmp_path / "out"), "DIR": str(tmp_path)}
    done = run_quern("eval", "ppl", tiny, *[names.get(f, f) for f in flags], stdin=stdin)
    assert (done.returncode, message in done.stderr) == (code, True), done.stderr.decode()
    assert list(tmp_path.iterdir()) == []
