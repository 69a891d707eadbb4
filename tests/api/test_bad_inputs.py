#!/usr/bin/env python3
"""Broken checkpoints, one row each: what is done to a good one, and how `quern inspect` refuses it.

The table of docs/bad-inputs.md is made from the rows and from what quern says:

    tests/api/test_bad_inputs.py --write      makes it anew (QUERN_BIN names the program)
    pytest tests/api/test_bad_inputs.py       checks each row, and that the page is current

Every row must exit with its code and say one sentence on stderr that has the expected words. On stdout is what could be
seen all the same: clean text, and with --json one object that tells the same sentence.
"""

import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ORACLE = ROOT / "tests" / "data" / "oracle"
PAGE = ROOT / "docs" / "bad-inputs.md"
MODEL, INDEX = "model.safetensors", "model.safetensors.index.json"
BAD_INPUT = 3


# ------------------------------------------------------------------------------------------------ breaking checkpoints

class Checkpoint:
    """A folder that links to the files of a good checkpoint; what is changed becomes a file of its own."""

    def __init__(self, folder, base):
        self.folder = pathlib.Path(folder)
        if base:
            for file in (ORACLE / base).iterdir():
                if file.name == "config.json" or file.name.startswith("model"):
                    (self.folder / file.name).symlink_to(file)

    def read(self, name):
        return (self.folder / name).read_bytes()

    def remove(self, name):
        (self.folder / name).unlink()

    def write(self, name, data):
        path = self.folder / name
        if path.is_symlink():
            path.unlink()
        path.write_bytes(data)

    def link(self, name, target):
        path = self.folder / name
        if path.is_symlink() or path.exists():
            path.unlink()
        path.symlink_to(target)

    def json(self, name, change):
        document = json.loads(self.read(name))
        change(document)
        self.write(name, json.dumps(document).encode())

    def config(self, **fields):
        """Sets fields; a value of ... removes one."""
        def change(document):
            for name, value in fields.items():
                if value is ...:
                    document.pop(name, None)
                else:
                    document[name] = value
        self.json("config.json", change)

    def header(self, change, name=MODEL):
        """Changes a header; the data stay as they are."""
        blob = self.read(name)
        size = struct.unpack("<Q", blob[:8])[0]
        header = json.loads(blob[8:8 + size])
        header = change(header) or header
        text = json.dumps(header).encode()
        self.write(name, struct.pack("<Q", len(text)) + text + blob[8 + size:])

    def entry(self, tensor, **fields):
        self.header(lambda header: header[tensor].update(fields))

    def patch(self, tensor, at, data, name=MODEL):
        """Overwrites bytes of a tensor."""
        blob = bytearray(self.read(name))
        size = struct.unpack("<Q", blob[:8])[0]
        first = 8 + size + json.loads(blob[8:8 + size])[tensor]["data_offsets"][0] + at
        blob[first:first + len(data)] = data
        self.write(name, bytes(blob))


def file_of(header, data=b"", claim=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if claim is None else claim) + text + data


def tensor(begin, end, dtype="U8", shape=None):
    return {"dtype": dtype, "shape": [end - begin] if shape is None else shape, "data_offsets": [begin, end]}


def small(header, data=b"", claim=None):
    """A row's change: the file of weights holds just this."""
    return lambda c: c.write(MODEL, file_of(header, data, claim))


def move(header, old, new):
    return {new if name == old else name: value for name, value in header.items()}


# ------------------------------------------------------------------------------------------------------------ the rows

EXPERT = "model.layers.3.mlp.experts"
SHARD = [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]


def rows():
    """(section, what is wrong, base checkpoint, change, words of the message)"""
    def section(title, base, *entries):
        for what, change, words in entries:
            yield title, what, base, change, words

    def config(**fields):
        return lambda c: c.config(**fields)

    def place(tensor_name, file):
        return lambda c: c.json(INDEX, lambda index: index["weight_map"].update({tensor_name: file}))

    yield from section(
        "The folder", "tiny-dense",
        ("the folder does not exist", lambda c: shutil.rmtree(c.folder), "no such folder: check the path"),
        ("it is a file", lambda c: (shutil.rmtree(c.folder), c.folder.write_bytes(b"x")), "is not a folder"),
        ("it is empty", lambda c: [file.unlink() for file in c.folder.iterdir()], "config.json: no such file"),
        ("it is a repository of the Hugging Face cache",
         lambda c: ([file.unlink() for file in c.folder.iterdir()], (c.folder / "snapshots").mkdir()),
         "name one of the folders in its snapshots"),
        ("config.json is missing", lambda c: c.remove("config.json"), "config.json: no such file"),
        ("config.json is a link to itself", lambda c: c.link("config.json", "config.json"),
         "Too many levels of symbolic links"),
        ("config.json is a folder", lambda c: (c.remove("config.json"), (c.folder / "config.json").mkdir()),
         "is a folder, not a regular file"),
        ("the weights are missing", lambda c: c.remove(MODEL), f"has neither {MODEL} nor {INDEX}"),
        ("the weights are a link to nothing", lambda c: c.link(MODEL, "gone"), f"{MODEL}: no such file"),
        ("the weights are a link to themselves", lambda c: c.link(MODEL, MODEL), "Too many levels of symbolic links"),
        ("the weights are a named pipe", lambda c: (c.remove(MODEL), os.mkfifo(c.folder / MODEL)),
         "is a device or pipe"),
        ("there are single weights and an index", lambda c: c.write(INDEX, b"{}"), f"has both {MODEL} and {INDEX}"),
    )
    yield from section(
        "config.json", "tiny-sparse",
        ("empty", lambda c: c.write("config.json", b""), "config.json: invalid JSON"),
        ("cut in the middle", lambda c: c.write("config.json", c.read("config.json")[:700]), "invalid JSON at line"),
        ("a list", lambda c: c.write("config.json", b"[]"), "holds array, not an object"),
        ("a key twice", lambda c: c.write("config.json", b'{"a":1,"a":2}'), "duplicate object key"),
        ("100,000 brackets", lambda c: c.write("config.json", b"[" * 100000), "nested deeper than 512 levels"),
        ("17 MB of spaces", lambda c: c.write("config.json", b" " * (17 << 20)), "larger than the 16777216 bytes"),
        ("another family", config(model_type="deepseek_v32"), 'model_type is "deepseek_v32"'),
        ("another architecture", config(architectures=["LlamaForCausalLM"]), 'architectures is "LlamaForCausalLM"'),
        ("another activation", config(hidden_act="gelu"), 'hidden_act is "gelu"'),
        ("another router", config(scoring_func="softmax"), 'scoring_func is "softmax"'),
        ("half-split RoPE", config(rope_interleave=False), "rope_interleave is false"),
        ("an unknown RoPE", config(rope_parameters={"rope_theta": 1e4, "rope_type": "longrope"}),
         'rope_parameters.rope_type is "longrope"'),
        ("two MTP layers", config(num_nextn_predict_layers=2), "num_nextn_predict_layers is 2"),
        ("biases in attention", config(attention_bias=True), "attention_bias is true"),
        ("a size is absent", config(hidden_size=...), "hidden_size is absent"),
        ("a size is a float", config(hidden_size=96.0), "hidden_size is 96.0: quern takes an integer"),
        ("a size is a string", config(hidden_size="96"), 'hidden_size is "96"'),
        ("a size is negative", config(hidden_size=-96), "hidden_size is -96"),
        ("a size is 2^62", config(vocab_size=1 << 62), "vocab_size is 4611686018427387904"),
        ("more layers than layer types", config(num_hidden_layers=9), "must be a list of num_hidden_layers (9)"),
        ("an unknown layer type", config(indexer_types=["full"] * 7 + ["half"]), 'indexer_types is "half"'),
        ("the first layer shares", config(indexer_types=["shared"] + ["full"] * 7), "first layer a shared one"),
        ("groups that do not divide", config(n_group=3), "n_group is 3"),
        ("more experts taken than there are", config(num_experts_per_tok=17), "num_experts_per_tok is 17"),
        ("an end token outside of the vocabulary", config(eos_token_id=[1, 512]), "eos_token_id is 512"),
        ("dense layers told in two ways", config(first_k_dense_replace=0),
         "first_k_dense_replace is 0, and mlp_layer_types has layer 0 as a dense one"),
        ("FP8 weights", config(quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128]}),
         'quantization_config.quant_method is "fp8"'),
        ("NVFP4 weights", config(quantization_config={"quant_method": "compressed-tensors",
                                                      "format": "nvfp4-pack-quantized"}),
         'quantization_config.format is "nvfp4-pack-quantized"'),
        ("INT4 weights", config(quantization_config={"quant_method": "compressed-tensors", "format": "pack-quantized"}),
         'quantization_config.format is "pack-quantized"'),
        ("groups of 16", config(quantization_config={"quant_method": "quark", "global_quant_config": {
            "weight": {"dtype": "fp4", "group_size": 16}}}), "weight.group_size is 16"),
    )
    yield from section(
        "The file of weights", "tiny-dense",
        ("empty", lambda c: c.write(MODEL, b""), "has 0 bytes, too few"),
        ("7 bytes", lambda c: c.write(MODEL, b"\x02" + bytes(6)), "has 7 bytes, too few"),
        ("a header of 10 GB is claimed", small({}, claim=10 ** 10), "claims a header of 10000000000 bytes, but 2 follow"),
        ("a header of 2^64 - 1 bytes is claimed", small({}, claim=(1 << 64) - 1), "claims a header of 18446744073709551615"),
        ("a header of one byte more than there is", small({}, claim=3), "claims a header of 3 bytes, but 2 follow"),
        ("the header's length is 0", small({}, claim=0), "expected '{'"),
        ("the last byte is missing", lambda c: c.write(MODEL, c.read(MODEL)[:-1]), "truncated or damaged"),
        ("one byte too many", lambda c: c.write(MODEL, c.read(MODEL) + b"x"), "1 bytes that belong to no tensor"),
        ("no JSON", small(b"hello"), "expected '{'"),
        ("no UTF-8", small(b'{"\xff":{}}'), "not UTF-8"),
        ("a NUL in a name", small(b'{"a\\u0000":{}}'), "control bytes"),
        ("an empty name", small({"": tensor(0, 1)}, b"x"), "name that is empty"),
        ("a name of 257 bytes", small({"n" * 257: tensor(0, 1)}, b"x"), "more than 256 bytes"),
        ("a tensor twice", small(b'{"a":%s,"a":%s}' % ((json.dumps(tensor(0, 0)).encode(),) * 2)), "stands twice"),
        ("tensors that overlap", small({"a": tensor(0, 4), "b": tensor(3, 7)}, bytes(7)), "inside the tensor that ends"),
        ("a hole between tensors", small({"a": tensor(0, 4), "b": tensor(5, 9)}, bytes(9)), "leaving a hole"),
        ("offsets reversed", small({"a": tensor(0, 4) | {"data_offsets": [4, 0]}}, bytes(4)), "not a begin and an end"),
        ("data past the end", small({"a": tensor(0, 1 << 40)}), "end at byte 1099511627776 of the data section"),
        ("fewer bytes than the shape needs", small({"a": tensor(0, 4, shape=[5])}, bytes(4)), "need 5 bytes"),
        ("a shape whose product overflows", small({"a": tensor(0, 0, shape=[1 << 32, 1 << 32])}), "need more than"),
        ("nine dimensions", small({"a": tensor(0, 1, shape=[1] * 9)}, b"x"), "more than 8 dimensions"),
        ("a negative dimension", small({"a": tensor(0, 1, shape=[-1])}, b"x"), "plain non-negative integer"),
        ("a dimension of 1.0", small({"a": tensor(0, 1, shape=[1.0])}, b"x"), "plain non-negative integer"),
        ("an offset beyond 64 bits", small({"a": tensor(0, 1 << 64)}), "at most 64 bits"),
        ("dtype F64", small({"a": tensor(0, 8, "F64", [1])}, bytes(8)), "its dtype is F64"),
        ("dtype F8_E4M3", small({"a": tensor(0, 8, "F8_E4M3")}, bytes(8)), "its dtype is F8_E4M3"),
        ("a tensor without shape", small({"a": {"dtype": "U8", "data_offsets": [0, 0]}}), "lacks dtype, shape or"),
        ("metadata that are no strings", small({"__metadata__": {"a": 1}}), "expected a string"),
    )
    yield from section(
        "Tensors", "tiny-dense",
        ("one is missing", lambda c: c.header(lambda h: move(h, "lm_head.weight", "lm_tail.weight")),
         "tensor lm_head.weight: is missing"),
        ("one is not known", lambda c: c.header(lambda h: h.update({"model.extra": tensor(0, 0)})),
         "tensor model.extra: is U8 [0] and has no place"),
        ("one is transposed", lambda c: c.entry("lm_head.weight", shape=[96, 512]), "is BF16 [96, 512], expected"),
        ("one has a dimension more", lambda c: c.entry("lm_head.weight", shape=[1, 512, 96]), "is BF16 [1, 512, 96]"),
        ("a weight is U8", lambda c: c.entry("lm_head.weight", dtype="U8", shape=[512, 192]),
         "quern takes MXFP4 for routed experts only"),
        ("a norm has a NaN", lambda c: c.patch("model.norm.weight", 10, b"\xc0\x7f"), "value at index 5 is not a finite"),
        ("a router's bias is infinite",
         lambda c: c.patch("model.layers.1.mlp.gate.e_score_correction_bias", 0, b"\0\0\x80\x7f"),
         "value at index 0 is not a finite"),
        ("config.json has another vocabulary", config(vocab_size=511, eos_token_id=1), "expected BF16, F16 or F32 [511, 96]"),
        ("config.json has a layer less",
         config(num_hidden_layers=3, indexer_types=["full"] * 3, mlp_layer_types=["dense", "sparse", "sparse"]),
         "tensor model.layers.3."),
        ("config.json has an MTP layer", config(num_nextn_predict_layers=1), "no tensors of the MTP layer model.layers.4"),
        ("config.json makes a layer dense", config(mlp_layer_types=["dense", "dense", "sparse", "sparse"], first_k_dense_replace=2),
         "tensor model.layers.1.mlp.gate_proj.weight: is missing"),
        ("an expert of another dtype", lambda c: c.entry("model.layers.1.mlp.experts.5.up_proj.weight", dtype="F16"),
         "experts.5.up_proj.weight: is F16, and gate_proj of expert 0 is BF16"),
    )
    yield from section(
        "MXFP4 experts", "tiny-sparse-mxfp4-ct",
        ("a scale byte 255 (NaN)", lambda c: c.patch(f"{EXPERT}.7.down_proj.weight_scale", 5, b"\xff"),
         "scale byte at row 5, block 0 is 255"),
        ("a scale byte 253", lambda c: c.patch(f"{EXPERT}.7.up_proj.weight_scale", 4, b"\xfd"),
         "scale byte at row 1, block 1 is 253"),
        ("scales never written", lambda c: c.patch(f"{EXPERT}.7.down_proj.weight_scale", 0, bytes(96)),
         "the scales are all zero"),
        ("scales are missing",
         lambda c: c.header(lambda h: move(h, f"{EXPERT}.7.up_proj.weight_scale", "x")), "weight_scale: is missing"),
        ("codes of another shape", lambda c: c.entry(f"{EXPERT}.7.up_proj.weight_packed", shape=[48, 32]),
         "is U8 [48, 32], expected U8 [32, 48]"),
        ("config.json says nothing of it", config(quantization_config=None), "quantization_config says nothing of it"),
        ("config.json says Quark",
         config(quantization_config={"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4"}}}),
         "are MXFP4 as compressed-tensors names it"),
        ("the shared expert is quantised too", lambda c: c.header(lambda h: move(
            h, "model.layers.3.mlp.shared_experts.up_proj.weight",
            "model.layers.3.mlp.shared_experts.up_proj.weight_packed")), "is quantised, and quern takes MXFP4 for"),
    )
    yield from section(
        "Shards and index", "tiny-sharded",
        ("a shard is missing", lambda c: c.remove(SHARD[1]), f"{SHARD[1]}: is missing, though the index"),
        ("a shard is truncated", lambda c: c.write(SHARD[1], c.read(SHARD[1])[:-100]), "truncated or damaged"),
        ("a shard is empty", lambda c: c.write(SHARD[1], b""), "has 0 bytes, too few"),
        ("two shards are exchanged",
         lambda c: (c.link(SHARD[0], ORACLE / "tiny-sharded" / SHARD[1]),
                    c.link(SHARD[1], ORACLE / "tiny-sharded" / SHARD[0])), "the index places it in"),
        ("the index is no JSON", lambda c: c.write(INDEX, b"{"), "invalid JSON"),
        ("the index is empty", lambda c: c.write(INDEX, b"{}"), "has no weight_map"),
        ("a shard that does not exist is named", place("lm_head.weight", "model-9.safetensors"),
         "model-9.safetensors: is missing, though the index"),
        ("a path that climbs out", place("lm_head.weight", "../../secret.safetensors"), "not the plain name"),
        ("an absolute path", place("lm_head.weight", "/etc/passwd"), "not the plain name"),
        ("a number for a file", place("lm_head.weight", 3), "not the plain name"),
        ("a tensor placed in another shard", place("lm_head.weight", SHARD[0]), f"the index places it in {SHARD[0]}"),
        ("a tensor that is in no shard", place("model.extra", SHARD[0]), "tensor model.extra: is missing, though"),
        ("a tensor that the index lacks",
         lambda c: c.json(INDEX, lambda index: index["weight_map"].pop("lm_head.weight")), "the index does not list it"),
        ("metadata are a list", lambda c: c.json(INDEX, lambda index: index.update(metadata=[])),
         "metadata is no object but array"),
        ("a wrong total_size", lambda c: c.json(INDEX, lambda index: index["metadata"].update(total_size=1)),
         "metadata.total_size is 1"),
        ("a tensor in two shards",
         lambda c: ([c.header(lambda h: h.update({"model.extra": tensor(0, 0)}), name) for name in SHARD[:2]],
                    place("model.extra", SHARD[0])(c)), "the index places it in"),
    )


ROWS = list(rows())
DONE = {}


# ------------------------------------------------------------------------------------------------------------- running

def inspect(quern, folder, *options):
    """(exit code, stdout, the last line on stderr with the folder's name taken out)"""
    done = subprocess.run([quern, "inspect", str(folder), *options], capture_output=True, timeout=120, check=False)
    lines = done.stderr.decode().splitlines()
    return done.returncode, done.stdout.decode(), lines, (lines[-1] if lines else "").replace(str(folder), "DIR")


def run_row(quern, row):
    """What inspect() gives for the row; each is run once."""
    title, what, base, change, _ = row
    if (title, what) in DONE:
        return DONE[title, what]
    with tempfile.TemporaryDirectory(prefix="quern-bad-") as outer:
        folder = pathlib.Path(outer) / "checkpoint"
        folder.mkdir()
        change(Checkpoint(folder, base))
        DONE[title, what] = (*inspect(quern, folder), inspect(quern, folder, "--json"))
    return DONE[title, what]


def page(quern):
    text = ["# Bad inputs", "",
            "What is done to a good checkpoint, and how quern refuses it (`DIR` is the checkpoint's folder). All commands",
            "that open a checkpoint refuse it with the same sentence. Made by `tests/api/test_bad_inputs.py --write`.", ""]
    title = None
    for row in ROWS:
        if row[0] != title:
            text += [""] if title else []
            title = row[0]
            text += [f"## {title}", "", "| what is wrong | exit code | message |", "|---|---|---|"]
        code, _, _, message, _ = run_row(quern, row)
        text.append(f"| {row[1]} | {code} | `{message.replace('|', chr(92) + '|')}` |")
    text += ["", "## Truncation", "",
             "A small file of weights cut after every one of its bytes (length, header and data) is refused each time with",
             "exit code 3 and a sentence that names the file and says that it is truncated or damaged.", ""]
    return "\n".join(text)


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]}: {row[1]}" for row in ROWS])
def test_is_refused(quern_bin, row):
    code, stdout, lines, message, as_json = run_row(quern_bin, row)
    assert code == BAD_INPUT, lines
    assert stdout.replace("\n", "").isprintable() and "a whole GLM-5 checkpoint" not in stdout
    assert len(lines) == 1, lines
    assert message.startswith("quern: DIR") and row[4] in message
    assert as_json[0] == BAD_INPUT and as_json[2] == lines
    told = json.loads(as_json[1])
    assert (told["runnable"], told["problem"]) == (False, lines[0].removeprefix("quern: "))


def test_every_truncation_is_refused(quern_bin, tmp_path):
    weights = {"model.norm.weight": tensor(0, 8, "BF16", [4]), "lm_head.weight": tensor(8, 24, "BF16", [4, 2])}
    whole = file_of(weights, bytes(range(24)))
    checkpoint = Checkpoint(tmp_path, "tiny-dense")
    for cut in range(len(whole)):
        checkpoint.write(MODEL, whole[:cut])
        code, stdout, lines, message = inspect(quern_bin, tmp_path)
        assert (code, len(lines)) == (BAD_INPUT, 1), (cut, lines)
        assert "cut off" in stdout or "unreadable" in stdout, (cut, stdout)
        assert message.startswith(f"quern: DIR/{MODEL}: ") and "truncated" in message, (cut, message)
    checkpoint.write(MODEL, whole)
    assert "is missing" in inspect(quern_bin, tmp_path)[3]


def test_the_page_is_current(quern_bin):
    assert PAGE.read_text(encoding="utf-8") == page(quern_bin), "run tests/api/test_bad_inputs.py --write"


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    PAGE.write_text(page(os.environ.get("QUERN_BIN") or ROOT / "build" / "release" / "quern"), encoding="utf-8")
