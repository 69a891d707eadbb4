#!/usr/bin/env python3
"""Holds `quern convert` to other programs: an encoder written from the format's definition, compressed-tensors, transformers.

    python3 -m venv VENV && VENV/bin/pip install torch transformers compressed-tensors safetensors numpy
    VENV/bin/python tools/check_conversion.py --quern build/release/quern [CHECKPOINT ...]

Each CHECKPOINT (BF16; by default the shipped model and a checkpoint of the tests) is converted with --rtn and with the
default rule, and of each result is checked:

  encoder        codes and scales are those of the encoder below, and all other tensors are the source's, byte by byte
  packing        compressed-tensors, given quern's scales, packs the same codes
  decompressor   compressed-tensors' decompressor gives exactly the BF16 weights E2M1 * 2^(scale - 127)
  config         compressed-tensors reads quantization_config, and its targets are exactly the routed experts
  logits         transformers on those BF16 weights, in float32, gives the logits of quern's float32 reference

Everything runs on the CPU. Takes some minutes and 6 GB of packages, so CI leaves it out; docs/quantisation.md keeps the
record of the last run. Exit code 1 if any check fails."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
from safetensors.torch import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEFAULT_SOURCES = [ROOT / "models/quern-tiny", ROOT / "tests/data/oracle/tiny-sparse"]
TOLERANCE = 3e-5        # of logits, absolute
PROMPT_TOKENS = (5, 31, 120)
GRID = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])

torch.set_grad_enabled(False)


# ---- reading ----

def read_checkpoint(folder):
    """config.json and all tensors of a folder."""
    tensors = {}
    for file in sorted(folder.glob("model*.safetensors")):
        tensors.update(load_file(str(file)))
    return json.loads((folder / "config.json").read_text()), tensors


def is_routed_expert(name):
    return ".mlp.experts." in name and name.endswith("_proj.weight")


def raw_bytes(tensor):
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


# ---- an encoder written from the definition, in float64 ----

def nearest(magnitude):
    """Codes 0 to 7 of the nearest elements: ties to the even code. magnitude >= 0."""
    middle = (GRID[1:] + GRID[:-1]) / 2
    below = np.searchsorted(middle, magnitude, side="left")     # a tie counts to the lower code ...
    tie = (below < 7) & (magnitude == middle[np.minimum(below, 6)])
    return below + (tie & (below % 2 == 1))                     # ... unless that one is odd


def squared_error(blocks, exponent):
    unit = np.exp2(exponent.astype(np.float64))[:, None]
    magnitude = np.abs(blocks) / unit
    return (((magnitude - GRID[nearest(magnitude)]) * unit) ** 2).sum(-1)


def encode(weight, rtn):
    """[rows, cols] -> codes [rows, cols / 2], scales [rows, cols / 32], and the blocks in which another scale is as good
    within the rounding of a float32 sum."""
    rows, cols = weight.shape
    blocks = weight.to(torch.float64).numpy().reshape(-1, 32)
    largest = np.abs(blocks).max(-1)
    exponent = np.where(largest > 0, np.frexp(largest)[1] - 1 - 2, -127).clip(-127, 125)
    close = np.zeros(len(blocks), bool)
    if not rtn:
        exponent = np.where(largest > 0, exponent.clip(-125, 125), -127)
        tried = np.stack([exponent, exponent + 1, exponent - 1])
        errors = np.stack([squared_error(blocks, e) for e in tried])
        errors[1, exponent == 125] = np.inf
        errors[2, exponent <= -125] = np.inf
        choice = errors.argmin(0)                               # the first of equals: OCP's, then the larger
        ordered = np.sort(errors, 0)
        close = ordered[1] - ordered[0] <= 1e-6 * ordered[0]
        exponent = np.where(largest > 0, np.take_along_axis(tried, choice[None], 0)[0], -127)
    scaled = blocks / np.exp2(exponent.astype(np.float64))[:, None]
    codes = (nearest(np.abs(scaled)) + 8 * np.signbit(scaled)).astype(np.uint8).reshape(rows, cols)
    return codes[:, 0::2] | codes[:, 1::2] << 4, (exponent + 127).astype(np.uint8).reshape(rows, -1), close.reshape(rows, -1)


def decode(codes, scales):
    """E2M1 * 2^(scale - 127) as BF16, which holds each of them exactly."""
    values = np.concatenate([GRID, -GRID])
    elements = np.stack([values[codes & 15], values[codes >> 4]], -1).reshape(scales.shape[0], -1, 32)
    exact = elements * np.exp2(scales.astype(np.float64) - 127)[..., None]
    weight = torch.from_numpy(exact.reshape(scales.shape[0], -1))
    assert torch.equal(weight.to(torch.bfloat16).to(torch.float64), weight)
    return weight.to(torch.bfloat16)


# ---- the checks: each returns what to print, and raises AssertionError ----

def check_encoder(source, output, experts, rtn):
    blocks = ties = 0
    for name in experts:
        codes, scales, close = encode(source[name], rtn)
        got_codes, got_scales = output[name + "_packed"].numpy(), output[name + "_scale"].numpy()
        assert got_codes.shape == codes.shape and got_scales.shape == scales.shape, f"{name}: shape"
        differs = (got_scales != scales) | (got_codes != codes).reshape(*scales.shape, 16).any(-1)
        assert not (differs & ~close).any(), f"{name}: {int((differs & ~close).sum())} blocks are encoded differently"
        blocks, ties = blocks + scales.size, ties + int(differs.sum())
    rest = set(source) - set(experts)
    assert set(output) == rest | {n + s for n in experts for s in ("_packed", "_scale")}, "tensors are missing or too many"
    for name in rest:
        assert output[name].dtype == source[name].dtype and raw_bytes(output[name]) == raw_bytes(source[name]), f"{name}: changed"
    return f"{len(experts)} matrices, {blocks} blocks the same, {ties} at a tie of float32 sums; {len(rest)} other tensors untouched"


def scheme_of(config):
    from compressed_tensors.quantization import QuantizationConfig
    quantization = QuantizationConfig.model_validate(config["quantization_config"])
    assert list(quantization.config_groups) == ["group_0"], "config groups"
    return quantization, quantization.config_groups["group_0"]


def check_packing(source, output, experts, config):
    from compressed_tensors.compressors.mxfp4 import MXFP4PackedCompressor
    _, scheme = scheme_of(config)
    for name in experts:
        scale = torch.exp2(output[name + "_scale"].float() - 127)
        packed = MXFP4PackedCompressor.compress({"weight": source[name].float(), "weight_scale": scale}, scheme)
        # signs of zeros: a negative value rounded to zero keeps its sign here and there
        assert torch.equal(packed["weight_packed"], output[name + "_packed"]), f"{name}: codes differ"
        assert torch.equal(packed["weight_scale"], output[name + "_scale"]), f"{name}: scales differ"
    return f"{len(experts)} matrices packed alike"


def check_decompressor(output, experts, config):
    from compressed_tensors.compressors.mxfp4 import MXFP4PackedCompressor
    _, scheme = scheme_of(config)
    weights = {}
    for name in experts:
        packed, scale = output[name + "_packed"], output[name + "_scale"]
        weights[name] = decode(packed.numpy(), scale.numpy())
        got = MXFP4PackedCompressor.decompress({"weight_packed": packed, "weight_scale": scale}, scheme)["weight"]
        assert got.dtype == torch.bfloat16 and raw_bytes(got) == raw_bytes(weights[name]), f"{name}: weights differ"
    return f"{len(experts)} matrices decompressed to the same bits", weights


def module_tree(tensors):
    """Modules as the checkpoint names them: Linear for matrices, but Embedding for embeddings; one Module for the rest."""
    root = torch.nn.Module()
    for name, tensor in tensors.items():
        *path, last = name.split(".")
        at = root
        for part in path[:-1]:
            if part not in dict(at.named_children()):
                at.add_module(part, torch.nn.Module())
            at = at.get_submodule(part)
        if last == "weight" and tensor.dim() == 2:
            kind = torch.nn.Embedding if path[-1] == "embed_tokens" else torch.nn.Linear
            at.add_module(path[-1], kind(1, 1, device="meta"))
        elif path[-1] not in dict(at.named_children()):
            at.add_module(path[-1], torch.nn.Module())
    return root


def check_config(source, experts, config):
    from compressed_tensors.quantization import QuantizationConfig
    from compressed_tensors.utils import match_named_modules
    quantization, scheme = scheme_of(config)
    assert isinstance(quantization, QuantizationConfig)
    assert quantization.format == "mxfp4-pack-quantized" and scheme.format in (None, quantization.format), "format"
    weights = scheme.weights
    assert (weights.num_bits, weights.type, weights.group_size, weights.scale_dtype) == (4, "float", 32, torch.uint8), "scheme"
    assert weights.symmetric and not weights.dynamic and scheme.input_activations is None, "scheme"
    tree = module_tree(source)
    matched = {name + ".weight" for name, _ in match_named_modules(tree, scheme.targets, quantization.ignore)}
    assert matched == set(experts), f"targets differ from the routed experts: {sorted(matched ^ set(experts))[:4]}"
    linears = sum(isinstance(m, torch.nn.Linear) for m in tree.modules())
    return f"targets are {len(matched)} of {linears} linear modules: the routed experts"


def transformers_model(folder, config, tensors):
    """GlmMoeDsaForCausalLM in float32 with these tensors."""
    from transformers import AutoConfig, AutoModelForCausalLM, logging
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    folder.mkdir()
    plain = {key: value for key, value in config.items() if key != "quantization_config"}
    (folder / "config.json").write_text(json.dumps(plain))
    save_file({name: t.contiguous() for name, t in tensors.items()}, str(folder / "model.safetensors"), metadata={"format": "pt"})
    model = AutoModelForCausalLM.from_pretrained(folder, config=AutoConfig.from_pretrained(folder), dtype=torch.float32,
                                                 attn_implementation="eager", experts_implementation="eager")
    return model.eval()


def quern_logits(quern, folder, ids, scratch):
    (scratch / "ids.json").write_text(json.dumps(ids))
    out = scratch / "logits.safetensors"
    out.unlink(missing_ok=True)
    subprocess.run([quern, "eval", "logits", folder, "--ids", scratch / "ids.json", "--out", out], check=True,
                   capture_output=True, env={**os.environ, "QUERN_ISA": "scalar"})
    return load_file(str(out))["logits"]


def check_logits(quern, folder, output, experts, weights, config, scratch):
    plain = {name: t for name, t in output.items() if not name.endswith(("_packed", "_scale"))}
    model = transformers_model(scratch / "plain", config, {**plain, **weights})
    random, worst = np.random.default_rng(5), 0.0
    for count in PROMPT_TOKENS:
        ids = random.integers(0, config["vocab_size"] - 16, count).tolist()
        expected = model(torch.tensor([ids]), use_cache=False).logits[0]
        got = quern_logits(quern, folder, ids, scratch)
        worst = max(worst, float((got - expected).abs().max()))
    assert worst <= TOLERANCE, f"logits differ by {worst:.2e}"
    return f"largest difference {worst:.1e} over prompts of {', '.join(map(str, PROMPT_TOKENS))} tokens"


def check(quern, source_folder, rule, converted):
    """All checks of one conversion; True when none failed."""
    print(f"{source_folder.name}, {'--rtn' if rule else 'default rule'}")
    with tempfile.TemporaryDirectory() as temporary:
        scratch = pathlib.Path(temporary)
        folder = converted or scratch / "converted"
        if not converted:
            subprocess.run([quern, "convert", source_folder, folder, *(["--rtn"] if rule else [])], check=True,
                           capture_output=True)
        _, source = read_checkpoint(source_folder)
        config, output = read_checkpoint(folder)
        experts = sorted(name for name in source if is_routed_expert(name))
        weights, passed = {}, True

        def step(name, run):
            nonlocal passed
            try:
                print(f"  {name:13} {run()}", flush=True)
            except AssertionError as error:
                passed = False
                print(f"  {name:13} FAILED: {error}", flush=True)

        def decompress():
            text, found = check_decompressor(output, experts, config)
            weights.update(found)
            return text

        step("encoder", lambda: check_encoder(source, output, experts, rule))
        step("packing", lambda: check_packing(source, output, experts, config))
        step("decompressor", decompress)
        step("config", lambda: check_config(source, experts, config))
        step("logits", lambda: check_logits(quern, folder, output, experts, weights, config, scratch))
    return passed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quern", required=True, type=pathlib.Path, help="the program")
    parser.add_argument("--converted", type=pathlib.Path, help="check this --rtn conversion of the one CHECKPOINT")
    parser.add_argument("sources", nargs="*", type=pathlib.Path, metavar="CHECKPOINT", default=DEFAULT_SOURCES)
    options = parser.parse_args()
    import compressed_tensors
    import transformers
    print(f"compressed-tensors {compressed_tensors.__version__}, transformers {transformers.__version__}, "
          f"torch {torch.__version__.split('+')[0]}, {subprocess.run([options.quern, '--version'], check=True, capture_output=True, text=True).stdout.strip()}")
    rules = [True] if options.converted else [True, False]
    results = [check(options.quern.resolve(), source, rule, options.converted) for source in options.sources for rule in rules]
    print("all passed" if all(results) else "FAILED")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
