"""quern convert --allow-lossy-source: FP8 checkpoints with scales for blocks of 128 by 128."""

import array
import json
import random
import shutil
import struct

import pytest

from safetensors_files import read_safetensors, write_safetensors, write_sharded
from synthetic_checkpoint import make_checkpoint

FLAGS = ("--threads", "2")
SIZES = {"hidden_size": 160, "moe_intermediate_size": 288}  # blocks that the edges cut
QUANTIZATION = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}


def value_of(bits):
    exponent, fraction = bits >> 3 & 15, bits & 7
    magnitude = fraction * 2.0**-9 if exponent == 0 else (8 + fraction) * 2.0**(exponent - 10)
    return -magnitude if bits & 0x80 else magnitude


VALUES = [value_of(bits) for bits in range(256)]


def dequantise(shape, codes, scales):
    """float32 [rows, cols]: value times the scale of its block, rounded once."""
    rows, cols = shape
    across = -(-cols // 128)
    out = array.array("f")
    for row in range(rows):
        line = codes[row * cols:(row + 1) * cols]
        out.extend(VALUES[code] * scales[row // 128 * across + column // 128] for column, code in enumerate(line))
    return out


def to_bf16(values):
    words = array.array("I", values.tobytes())
    return array.array("H", ((word + 0x7FFF + (word >> 16 & 1)) >> 16 for word in words)).tobytes()


def is_quantised(name, shape):
    return len(shape) == 2 and "embed_tokens" not in name and "lm_head" not in name and "mlp.gate.w" not in name


@pytest.fixture(name="world", scope="module")
def world_fixture(tmp_path_factory):
    """An FP8 checkpoint, its scales in other files than some of their weights, and the same in F32 and BF16."""
    folder = tmp_path_factory.mktemp("fp8")
    dice = random.Random(5)
    make_checkpoint(folder / "plain", 5, 1, **SIZES)
    lossy, twin = {}, {}
    (source,) = (folder / "plain").glob("*.safetensors")
    for name, (dtype, shape, data) in read_safetensors(source).items():
        if not is_quantised(name, shape):
            lossy[name] = twin[name] = dtype, shape, data
            continue
        codes = bytes(code if code & 0x7F != 0x7F else 0 for code in dice.randbytes(shape[0] * shape[1]))
        blocks = [-(-size // 128) for size in shape]
        scales = array.array("f", (dice.uniform(1e-4, 1e-3) for _ in range(blocks[0] * blocks[1])))
        values = dequantise(shape, codes, scales)
        lossy[name] = "F8_E4M3", shape, codes
        lossy[name + "_scale_inv"] = "F32", blocks, scales.tobytes()
        twin[name] = ("F32", shape, values.tobytes()) if ".experts." in name else ("BF16", shape, to_bf16(values))
    config = json.loads((folder / "plain" / "config.json").read_text())
    for part, tensors, more in (("fp8", lossy, {"quantization_config": QUANTIZATION}), ("twin", twin, {})):
        (folder / part).mkdir()
        (folder / part / "config.json").write_text(json.dumps({**config, **more}))
        write_sharded(folder / part, tensors, 5)
    return folder


def weights_of(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}


def test_it_is_the_conversion_of_what_it_stands_for(world, run_quern, tmp_path):
    index = json.loads((world / "fp8" / "model.safetensors.index.json").read_text())["weight_map"]
    assert any(index[name] != index[name.removesuffix("_scale_inv")] for name in index if name.endswith("_scale_inv"))
    for options in ((), ("--rtn",)):
        shutil.rmtree(tmp_path / "a", ignore_errors=True)
        shutil.rmtree(tmp_path / "b", ignore_errors=True)
        done = run_quern("convert", world / "fp8", tmp_path / "a", "--allow-lossy-source", *FLAGS, *options)
        assert done.returncode == 0, done.stderr.decode()
        assert run_quern("convert", world / "twin", tmp_path / "b", *FLAGS, *options).returncode == 0
        assert weights_of(tmp_path / "a") == weights_of(tmp_path / "b")
    config = json.loads((tmp_path / "a" / "config.json").read_text())
    assert config["quantization_config"]["format"] == "mxfp4-pack-quantized"
    assert "an FP8 release" in (tmp_path / "a" / "README.md").read_text()
    assert run_quern("inspect", tmp_path / "a").returncode == 0
    assert run_quern("convert", "--verify", tmp_path / "a").returncode == 0


def test_source_files_with_scales_stay_until_their_weights_are_done(world, run_quern, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(world / "fp8", source)
    flags = ("--allow-lossy-source", "--delete-source-shards", "--max-shard-size", "300000", *FLAGS)
    done = run_quern("convert", source, tmp_path / "a", *flags)
    assert done.returncode == 0, done.stderr.decode()
    assert not list(source.glob("*.safetensors"))
    assert run_quern("convert", world / "twin", tmp_path / "b", *flags[2:]).returncode == 0
    assert weights_of(tmp_path / "a") == weights_of(tmp_path / "b")


def change(folder, edit):
    """Applies edit(tensors) to the first file that has it do something."""
    for path in sorted(folder.glob("*.safetensors")):
        tensors = read_safetensors(path)
        if edit(tensors):
            write_safetensors(path, tensors)
            return


def spoil(kind):
    def edit(tensors):
        for name, (dtype, shape, data) in tensors.items():
            if kind == "nan" and dtype == "F8_E4M3":
                tensors[name] = dtype, shape, data[:7] + b"\x7f" + data[8:]
                return True
            if kind == "infinite" and name.endswith("_scale_inv"):
                tensors[name] = dtype, shape, struct.pack("<f", float("inf")) + data[4:]
                return True
            if kind == "shape" and name.endswith("_scale_inv"):
                tensors[name] = dtype, [len(data) // 4], data
                return True
            if kind == "dtype" and dtype == "F8_E4M3":
                tensors[name] = "U8", shape, data
                return True
        return False

    return edit


@pytest.mark.parametrize("kind, said", [
    ("nan", "row 0, column 7 is NaN or infinite"),
    ("infinite", "is NaN or infinite"),
    ("shape", "is missing or no F32 ["),
    ("dtype", "has scales and is not F8_E4M3"),
])
def test_bad_values_and_scales_are_named(world, run_quern, tmp_path, kind, said):
    source = tmp_path / "source"
    shutil.copytree(world / "fp8", source)
    change(source, spoil(kind))
    done = run_quern("convert", source, tmp_path / "a", "--allow-lossy-source", *FLAGS)
    assert done.returncode == 3 and said in done.stderr.decode(), done.stderr.decode()


def test_without_the_flag_and_with_other_blocks_it_is_refused(world, run_quern, tmp_path):
    done = run_quern("convert", world / "fp8", tmp_path / "a", *FLAGS)
    assert done.returncode == 3 and b"has a larger error than MXFP4 made from" in done.stderr
    source = tmp_path / "source"
    shutil.copytree(world / "fp8", source)
    config = json.loads((source / "config.json").read_text())
    config["quantization_config"]["weight_block_size"] = [64, 128]
    (source / "config.json").write_text(json.dumps(config))
    done = run_quern("convert", source, tmp_path / "a", "--allow-lossy-source", *FLAGS)
    assert done.returncode == 3 and b"weight_block_size is not [128, 128]" in done.stderr


def test_fp8_without_scales_is_refused(world, run_quern, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    tensors = {}
    for path in sorted((world / "fp8").glob("*.safetensors")):
        tensors.update(read_safetensors(path))
    del tensors["model.layers.1.mlp.experts.0.up_proj.weight_scale_inv"]
    shutil.copy(world / "fp8" / "config.json", source)
    write_sharded(source, tensors, 2)
    done = run_quern("convert", source, tmp_path / "a", "--allow-lossy-source", *FLAGS)
    assert done.returncode == 3 and b"is F8_E4M3 and has no weight_scale_inv" in done.stderr, done.stderr
