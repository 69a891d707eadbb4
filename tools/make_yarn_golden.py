#!/usr/bin/env python3
"""Goldens of YaRN rotary embeddings for the GLM-5 family, from transformers itself -> tests/data/yarn.

    python tools/make_yarn_golden.py --out tests/data/yarn

Needs torch, transformers >= 5.24 and safetensors; quern itself never does. Writes

    rope.json     parameter sets with the inverse frequencies, attention factor and softmax scale that come of them
    tiny/         a random checkpoint with YaRN (config.json, model.safetensors) and golden.safetensors: `ids` I32 [T],
                  `final_norm` [T, H] and `logits` [T, V] of a float32 run, T beyond the original context

All weights are random and made here.
"""
import argparse
import json
import math
import os

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.glm_moe_dsa.configuration_glm_moe_dsa import GlmMoeDsaConfig
from transformers.models.glm_moe_dsa.modeling_glm_moe_dsa import GlmMoeDsaAttention, GlmMoeDsaRotaryEmbedding

torch.set_num_threads(1)
torch.set_grad_enabled(False)

SHAPE = dict(
    architectures=["GlmMoeDsaForCausalLM"], attention_bias=False, dtype="bfloat16", eos_token_id=[60],
    first_k_dense_replace=1, hidden_act="silu", hidden_size=32, index_head_dim=16, index_n_heads=16, index_topk=40,
    indexer_rope_interleave=True,
    indexer_types=["full", "shared"], intermediate_size=48, kv_lora_rank=32, max_position_embeddings=256,
    mlp_layer_types=["dense", "sparse"], model_type="glm_moe_dsa", moe_intermediate_size=16, n_group=1,
    n_routed_experts=4, n_shared_experts=1, norm_topk_prob=True, num_attention_heads=2, num_experts_per_tok=2,
    num_hidden_layers=2, num_key_value_heads=2, num_nextn_predict_layers=0, pad_token_id=60, q_lora_rank=24,
    qk_head_dim=32, qk_nope_head_dim=16, qk_rope_head_dim=16, rms_norm_eps=1e-5, rope_interleave=True, routed_scaling_factor=1.5,
    scoring_func="sigmoid", tie_word_embeddings=False, topk_group=1, topk_method="noaux_tc", v_head_dim=16,
    vocab_size=64)

YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=8.0, original_max_position_embeddings=32)
PARAMETERS = [
    (16, YARN),
    (16, dict(YARN, mscale=1.0, mscale_all_dim=1.0)),
    (16, dict(YARN, mscale=0.9, mscale_all_dim=0.6)),
    (64, dict(YARN, rope_theta=8000000, factor=40.0, original_max_position_embeddings=4096)),
    (64, dict(YARN, rope_theta=8000000, factor=4.0, original_max_position_embeddings=131072, beta_fast=24, beta_slow=2)),
    (64, dict(YARN, truncate=False, factor=2.5)),
    (64, dict(YARN, attention_factor=0.75)),
    (32, dict(YARN, factor=1.0, mscale_all_dim=0.707)),
    (64, dict(YARN, mscale_all_dim=0.707)),
    (64, dict(rope_type="default", rope_theta=8000000)),
]
TINY = dict(YARN, mscale=0.9, mscale_all_dim=0.6)
TOKENS = 96


def config_json(rope_dims, rope_parameters):
    return dict(SHAPE, qk_rope_head_dim=rope_dims, qk_head_dim=16 + rope_dims, index_head_dim=max(16, rope_dims),
                rope_parameters=rope_parameters)


def rope_table():
    out = []
    for dims, parameters in PARAMETERS:
        config = GlmMoeDsaConfig(**config_json(dims, dict(parameters)))
        rotary = GlmMoeDsaRotaryEmbedding(config)
        out.append(dict(qk_nope_head_dim=16, qk_rope_head_dim=dims, max_position_embeddings=256,
                        rope_parameters=parameters, attention_factor=rotary.attention_scaling,
                        softmax_scale=GlmMoeDsaAttention(config, 0).scaling,
                        inv_freq=[float(x) for x in rotary.inv_freq]))
    return out


def write_json(path, value):
    with open(path, "w") as f:
        json.dump(value, f, indent=1)
        f.write("\n")


def save(tensors, path):
    save_file({k: t.contiguous() for k, t in tensors.items()}, path, {"format": "pt"})
    os.chmod(path, 0o644)


def tiny(path):
    os.makedirs(path, exist_ok=True)
    config = config_json(16, TINY)
    write_json(f"{path}/config.json", config)
    torch.manual_seed(5)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(path), dtype=torch.float32,
                                             attn_implementation="eager", experts_implementation="eager").eval()
    for name, p in model.named_parameters():
        x = torch.randn(p.shape)
        w = 1 + 0.2 * x if name.endswith("norm.weight") else 0.3 * x if name.endswith("bias") else \
            x if "embed_tokens" in name else 1.5 * x / math.sqrt(p.shape[-1])
        p.copy_(w.bfloat16().float())
    for name, b in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            b.copy_(0.1 * torch.randn(b.shape))
    model.save_pretrained(f"{path}/saved")
    tensors = load_file(f"{path}/saved/model.safetensors")
    for f in os.listdir(f"{path}/saved"):
        os.remove(f"{path}/saved/{f}")
    os.rmdir(f"{path}/saved")
    tensors = {k: t if k.endswith("e_score_correction_bias") else t.bfloat16() for k, t in tensors.items()}
    save(tensors, f"{path}/model.safetensors")

    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager",
                                                 experts_implementation="eager").eval()
    ids = torch.randint(0, 60, (TOKENS,))
    seen = {}
    model.model.norm.register_forward_hook(lambda m, a, o: seen.__setitem__("final_norm", o[0]))
    logits = model(ids[None], use_cache=False).logits[0]
    save({"ids": ids.int(), "final_norm": seen["final_norm"], "logits": logits}, f"{path}/golden.safetensors")
    plain = AutoConfig.from_pretrained(path)
    plain.rope_parameters = dict(rope_type="default", rope_theta=10000.0)
    without = AutoModelForCausalLM.from_pretrained(path, config=plain, dtype=torch.float32, attn_implementation="eager",
                                                   experts_implementation="eager").eval()
    print("logits without YaRN differ by up to", float((without(ids[None], use_cache=False).logits[0] - logits).abs().max()))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", required=True, metavar="DIR")
    out = ap.parse_args().out
    os.makedirs(out, exist_ok=True)
    write_json(f"{out}/rope.json", rope_table())
    tiny(f"{out}/tiny")


if __name__ == "__main__":
    main()
