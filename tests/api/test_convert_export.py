"""quern convert: what stands around the weights (config, index, card, carried files, manifest), and --verify."""

import json
import pathlib
import re
import shutil

import pytest

from safetensors_files import read_safetensors

ORACLE = pathlib.Path(__file__).resolve().parent.parent / "data" / "oracle"
CARD = """---
license: other
license_name: glm-test
license_link: LICENSE
base_model:
- example/base
language: en
---
# The release
"""
CARRIED = {
    "LICENSE": b"a licence\n",
    "chat_template.jinja": b"{{ messages }}\n",
    "tokenizer.json": b"{}",
    "tokenizer_config.json": b'{"a": 1.0}',
    "vocab.txt": "ä\n".encode(),
}


@pytest.fixture(name="source")
def source_fixture(tmp_path):
    """A release: the weights of tiny-sparse and what lies beside weights on a hub."""
    folder = tmp_path / "release"
    folder.mkdir()
    for name in ("config.json", "generation_config.json", "model.safetensors"):
        shutil.copy(ORACLE / "tiny-sparse" / name, folder)
    (folder / "README.md").write_text(CARD, encoding="utf-8")
    for name, data in CARRIED.items():
        (folder / name).write_bytes(data)
    (folder / ".gitattributes").write_bytes(b"x")
    (folder / "photo.png").write_bytes(b"x")
    return folder


@pytest.fixture(name="quern")
def quern_fixture(run_quern):
    """quern(*arguments, code=0): what it said on stdout, or with a code on stderr."""

    def run(*arguments, code=0):
        done = run_quern("convert", *arguments)
        assert done.returncode == code, done.stderr.decode()
        return done.stderr.decode() if code else done.stdout.decode()

    return run


@pytest.fixture(name="converted")
def converted_fixture(source, quern, tmp_path):
    quern(source, tmp_path / "out")
    return tmp_path / "out"


def test_everything_of_the_release_but_its_weights_and_card_comes_along(source, converted):
    for name, data in CARRIED.items():
        assert (converted / name).read_bytes() == data
    assert (converted / "generation_config.json").read_bytes() == (source / "generation_config.json").read_bytes()
    assert not (converted / ".gitattributes").exists() and not (converted / "photo.png").exists()
    assert not list(converted.glob(".quern*"))


def test_config_differs_by_quantization_config_alone(source, converted):
    before, after = (source / "config.json").read_text(), (converted / "config.json").read_text()
    old, new = json.loads(before), json.loads(after)
    quantization = new.pop("quantization_config")
    assert new == old and list(new) == list(old)
    assert after.startswith(before.rstrip().removesuffix("}").rstrip())  # every byte, 1e-05 and indentation included
    reference = json.loads((ORACLE / "tiny-sparse-mxfp4-ct" / "config.json").read_text())["quantization_config"]
    quantization.pop("ignore"), reference.pop("ignore")
    assert quantization == reference and list(quantization) == list(reference)


def is_target(name, quantization):
    """Whether compressed-tensors (and vLLM) takes a Linear module of this name for quantised: an entry is a name, or
    with "re:" a pattern that matches from the name's start."""
    for entry in quantization["ignore"]:
        if re.match(entry[3:], name) if entry.startswith("re:") else entry == name:
            return False
    return True


def test_ignore_list_leaves_exactly_the_routed_experts(converted):
    quantization = json.loads((converted / "config.json").read_text())["quantization_config"]
    index = json.loads((converted / "model.safetensors.index.json").read_text())["weight_map"]
    modules = {}
    for name in index:
        module, _, kind = name.rpartition(".")
        modules.setdefault(module, set()).add(kind)
    linear = {name for name in modules if not re.search(r"norm$|^model\.embed", name)}
    assert linear > {"lm_head", "model.layers.8.eh_proj", "model.layers.3.mlp.shared_experts.up_proj",
                     "model.layers.0.self_attn.indexer.weights_proj", "model.layers.0.mlp.gate_proj"}
    quantised = {name for name in linear if is_target(name, quantization)}
    assert quantised == {name for name, kinds in modules.items() if kinds == {"weight_packed", "weight_scale"}}
    assert quantised == {f"model.layers.{layer}.mlp.experts.{expert}.{part}_proj"
                         for layer in range(3, 9) for expert in range(16) for part in ("gate", "up", "down")}
    fused = ["model.layers.0.mlp.gate_up_proj", "model.layers.3.mlp.shared_experts.gate_up_proj",
             "model.layers.3.self_attn.fused_qkv_a_proj", "model.layers.3.self_attn.indexer.wk_weights_proj",
             "model.embed_tokens", "model.layers.8.shared_head.head", "model.layers.8.embed_tokens",
             "model.layers.3.mlp.gate"]
    assert not [name for name in fused if is_target(name, quantization)]
    assert is_target("model.layers.8.mlp.experts", quantization)


def test_index_lists_every_tensor_sorted(converted):
    text = (converted / "model.safetensors.index.json").read_text()
    index = json.loads(text)
    assert text == json.dumps(index, indent=2, sort_keys=True) + "\n"
    found, total = {}, 0
    for path in converted.glob("*.safetensors"):
        for name, (_, _, data) in read_safetensors(path).items():
            found[name] = path.name
            total += len(data)
    assert index["weight_map"] == found and index["metadata"]["total_size"] == total


def test_card_keeps_the_licence_and_tells_what_was_done(converted):
    card = (converted / "README.md").read_text()
    front, body = card.removeprefix("---\n").split("---\n", 1)
    assert front == ("license: other\nlicense_name: glm-test\nlicense_link: LICENSE\nbase_model:\n- example/base\n"
                     "base_model_relation: quantized\ntags:\n- mxfp4\n- compressed-tensors\n")
    for text in ("MXFP4", "least squared error", "derivative", "`LICENSE`", "quern serve DIR", "vllm serve DIR"):
        assert text in body
    assert "/" + converted.parts[1] not in card


def test_manifest_lists_every_file(converted):
    manifest = json.loads((converted / "quern-manifest.json").read_text())
    files = {entry["name"]: entry for entry in manifest["files"]}
    assert set(files) == {path.name for path in converted.iterdir()} - {"quern-manifest.json"}
    for name, entry in files.items():
        assert entry["bytes"] == (converted / name).stat().st_size
        assert ("tensors" in entry) == name.endswith(".safetensors")
        if "tensors" in entry:
            assert list(entry["tensors"]) == list(read_safetensors(converted / name))
    assert manifest["settings"]["rule"] == "least-error" and manifest["settings"]["importance"] == "none"


def test_verify_passes_and_names_what_differs(converted, quern):
    text = quern("--verify", converted)
    assert "verified" in text and str(len(list(converted.iterdir())) - 1) + " files" in text
    line = json.loads(quern("--verify", "--json", "--threads", "2", converted).splitlines()[-1])["result"]
    assert line["verified"] and line["mismatches"] == 0 and line["bytes"] > 1000000

    path = sorted(converted.glob("*.safetensors"))[1]
    name, (_, _, tensor) = next(iter(read_safetensors(path).items()))
    data = bytearray(path.read_bytes())
    data[data.index(tensor[:64])] ^= 1
    path.write_bytes(data)
    (converted / "LICENSE").write_bytes(b"another")
    (converted / "tokenizer.json").unlink()
    said = quern("--verify", converted, code=1)
    assert f"{path.name}: tensor {name}: its bytes are not those" in said
    assert "LICENSE: has 7 bytes" in said and "tokenizer.json: is missing" in said
    assert "3 mismatches with its manifest, the first in" in said


def test_verify_is_refused_without_a_manifest_and_with_other_options(converted, quern, source):
    assert "quern-manifest.json: there is no such file" in quern("--verify", source, code=3)
    assert "--verify: only reads" in quern("--verify", converted, "--rtn", code=2)
    assert "--max-shard-size has no meaning" in quern("--verify", converted, "--max-shard-size", "6g", code=2)
    assert "--verify: takes one folder" in quern("--verify", converted, source, code=2)
    assert "takes two folders" in quern(converted, code=2)
