"""Reads and writes safetensors files with the standard library, for tests that make or look into checkpoints."""

import json
import struct

BYTES = {"F32": 4, "F16": 2, "BF16": 2, "U8": 1, "I32": 4, "F8_E4M3": 1}


def read_safetensors(path):
    """name -> (dtype, shape, bytes), in the order of the file's header."""
    data = path.read_bytes()
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    return {name: (entry["dtype"], entry["shape"],
                   data[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]])
            for name, entry in header.items() if name != "__metadata__"}


def read_checkpoint(folder):
    """The tensors of all weights' files of a folder."""
    tensors = {}
    for path in sorted(folder.glob("model*.safetensors")):
        tensors.update(read_safetensors(path))
    return tensors


def write_safetensors(path, tensors):
    """Writes name -> (dtype, shape, bytes)."""
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        count = BYTES[dtype]
        for size in shape:
            count *= size
        assert count == len(data), name
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def write_sharded(folder, tensors, shards):
    """Deals the tensors out to `shards` files and writes their index."""
    names, weight_map = list(tensors), {}
    for i in range(shards):
        part = names[i * len(names) // shards:(i + 1) * len(names) // shards]
        file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        write_safetensors(folder / file, {name: tensors[name] for name in part})
        weight_map.update((name, file) for name in part)
    index = {"metadata": {"total_size": sum(len(data) for _, _, data in tensors.values())}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
