"""A BF16 checkpoint of any size with random weights, made with the standard library."""

import json
import pathlib
import random

from safetensors_files import write_sharded

ORACLE = pathlib.Path(__file__).resolve().parent.parent / "data" / "oracle"
POOL_BYTES = 1 << 23


def make_checkpoint(folder, seed, shards, **sizes):
    """Writes the model of the oracle's tiny-mtp (a dense, two sparse and an MTP layer) with other sizes."""
    config = json.loads((ORACLE / "tiny-mtp" / "config.json").read_text(encoding="utf-8"))
    config.update(sizes)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    values = Values(seed)
    write_sharded(folder, {name: values.tensor(shape) for name, shape in shapes_of(config)}, shards)


class Values:
    """BF16 values between 2^-10 and 2^-3, cut out of one pool of random bits."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        high = bytes(117 + byte % 8 >> 1 | byte & 0x80 for byte in range(256))
        low, top = self.random.randbytes(POOL_BYTES // 2), self.random.randbytes(POOL_BYTES // 2).translate(high)
        pool = bytearray(POOL_BYTES)
        pool[0::2], pool[1::2] = low, top
        self.pool = bytes(pool)

    def tensor(self, shape):
        if isinstance(shape, int):  # a router's biases, float32
            return "F32", [shape], bytes(4 * shape)
        count = 1
        for size in shape:
            count *= size
        start = 2 * self.random.randrange(POOL_BYTES // 2)
        copies = self.pool[start:] + self.pool * (2 * count // POOL_BYTES + 1)
        return "BF16", shape, copies[:2 * count]


def shapes_of(config):
    """Pairs of name and shape, the order that of the layers."""
    hidden = config["hidden_size"]
    yield "model.embed_tokens.weight", [config["vocab_size"], hidden]
    layers = config["num_hidden_layers"]
    for layer in range(layers + 1):
        prefix = f"model.layers.{layer}."
        for name, shape in layer_shapes(config, layer < layers and config["mlp_layer_types"][layer] == "dense"):
            yield prefix + name, shape
        if layer == layers:
            for name in ("enorm", "hnorm", "shared_head.norm"):
                yield f"{prefix}{name}.weight", [hidden]
            yield prefix + "eh_proj.weight", [hidden, 2 * hidden]
    yield "model.norm.weight", [hidden]
    yield "lm_head.weight", [config["vocab_size"], hidden]


def layer_shapes(config, dense):
    c, hidden = config, config["hidden_size"]
    heads, latent, query = c["num_attention_heads"], c["kv_lora_rank"], c["q_lora_rank"]
    yield from (
        ("input_layernorm.weight", [hidden]), ("post_attention_layernorm.weight", [hidden]),
        ("self_attn.q_a_proj.weight", [query, hidden]), ("self_attn.q_a_layernorm.weight", [query]),
        ("self_attn.q_b_proj.weight", [heads * (c["qk_nope_head_dim"] + c["qk_rope_head_dim"]), query]),
        ("self_attn.kv_a_proj_with_mqa.weight", [latent + c["qk_rope_head_dim"], hidden]),
        ("self_attn.kv_a_layernorm.weight", [latent]),
        ("self_attn.kv_b_proj.weight", [heads * (c["qk_nope_head_dim"] + c["v_head_dim"]), latent]),
        ("self_attn.o_proj.weight", [hidden, heads * c["v_head_dim"]]),
        ("self_attn.indexer.wq_b.weight", [c["index_n_heads"] * c["index_head_dim"], query]),
        ("self_attn.indexer.wk.weight", [c["index_head_dim"], hidden]),
        ("self_attn.indexer.k_norm.weight", [c["index_head_dim"]]),
        ("self_attn.indexer.k_norm.bias", [c["index_head_dim"]]),
        ("self_attn.indexer.weights_proj.weight", [c["index_n_heads"], hidden]))
    if dense:
        yield from mlp_shapes("mlp.", hidden, c["intermediate_size"])
        return
    yield "mlp.gate.weight", [c["n_routed_experts"], hidden]
    yield "mlp.gate.e_score_correction_bias", c["n_routed_experts"]
    for expert in range(c["n_routed_experts"]):
        yield from mlp_shapes(f"mlp.experts.{expert}.", hidden, c["moe_intermediate_size"])
    yield from mlp_shapes("mlp.shared_experts.", hidden, c["moe_intermediate_size"] * c["n_shared_experts"])


def mlp_shapes(prefix, hidden, inner):
    yield prefix + "gate_proj.weight", [inner, hidden]
    yield prefix + "up_proj.weight", [inner, hidden]
    yield prefix + "down_proj.weight", [hidden, inner]
