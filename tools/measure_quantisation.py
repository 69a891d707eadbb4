#!/usr/bin/env python3
"""Measures what `quern convert` costs a model by its scale rule: the table of docs/quantisation.md.

    python3 tools/measure_quantisation.py --quern build/release/quern [--model models/quern-tiny] [--splits 8]

Converts the model with --rtn, with the default rule and with --importance, and prints for each the squared error of the
routed experts' weights and `quern eval kl` against the original: KL, agreement of the first token, perplexity.

The text is the model's own evaluation prompts (eval/*.jsonl) with their expected answers, through its chat template. It
is dealt into parts; each part in turn is what the KL is measured on, while the importance is collected on the others.
Needs nothing beyond Python's own library."""
import argparse
import array
import json
import math
import os
import pathlib
import struct
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0]
RULES = [("--rtn", "OCP scale, round to nearest"), ("default", "least squared error"), ("--importance", "least weighted error")]


def run(quern, *arguments, text=None):
    done = subprocess.run([quern, *map(str, arguments)], input=text, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"quern {arguments[0]}: {done.stderr}")
    return done.stdout


# ---- text ----

def conversation(item):
    """Template variables of one evaluation prompt with its answer."""
    if "expected_tool_calls" in item:
        calls = [{"type": "function", "function": call} for call in item["expected_tool_calls"]]
        answer = {"role": "assistant", "content": "", "tool_calls": calls}
    else:
        expected = item["expected"]
        answer = {"role": "assistant", "content": expected if isinstance(expected, str) else json.dumps(expected)}
    variables = {"messages": item["messages"] + [answer]}
    if "tools" in item:
        variables["tools"] = item["tools"]
    return variables


def texts(quern, model, parts):
    """The conversations as text, dealt into parts; a line of each kind goes to every part."""
    dealt = [[] for _ in range(parts)]
    for kind in ("arithmetic", "json", "tools", "needles"):
        items = [json.loads(line) for line in (model / "eval" / f"{kind}.jsonl").read_text().splitlines()]
        # longer prompts are more of the same filler
        items = [item for item in items if item.get("context_tokens", 0) <= 512]
        variables = "".join(json.dumps(conversation(item)) + "\n" for item in items)
        rendered = run(quern, "text", "render", "--jsonl", "--template", model / "chat_template.jinja", text=variables)
        for i, line in enumerate(rendered.splitlines()):
            dealt[i % parts].append(json.loads(line)["text"])
    return ["".join(part) for part in dealt]


# ---- weights ----

def tensors(folder):
    """name -> (dtype, bytes) of all weights files of a folder."""
    found = {}
    for path in sorted(folder.glob("model*.safetensors")):
        data = path.read_bytes()
        (length,) = struct.unpack_from("<Q", data)
        for name, entry in json.loads(data[8:8 + length]).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                found[name] = entry["dtype"], data[8 + length + begin:8 + length + end]
    return found


def bf16(data):
    words = array.array("H", data)
    return struct.unpack(f"<{len(words)}f", b"".join(struct.pack("<HH", 0, word) for word in words))


def squared_error(original, converted):
    """Sum of squared errors of the routed experts' weights, and of their squares."""
    error = power = 0.0
    for name, (_, data) in original.items():
        if name + "_packed" not in converted:
            continue
        codes, scales = converted[name + "_packed"][1], converted[name + "_scale"][1]
        for i, x in enumerate(bf16(data)):
            unit = math.ldexp(1.0, scales[i // 32] - 127)
            error += (x - E2M1[codes[i // 2] >> (i % 2 * 4) & 15] * unit) ** 2
            power += x * x
    return error, power


# ---- the table ----

def convert(quern, model, folder, rule, importance):
    flags = {"--rtn": ["--rtn"], "default": [], "--importance": ["--importance", importance]}[rule]
    run(quern, "convert", model, folder, *flags)


def measure(quern, model, splits, scratch):
    """rule -> list of (relative squared error, answer of eval kl), one for each split."""
    original, parts, results = tensors(model), texts(quern, model, splits), {rule: [] for rule, _ in RULES}
    for held_out in range(splits):
        (scratch / "collect.txt").write_text("".join(part for i, part in enumerate(parts) if i != held_out))
        (scratch / "measure.txt").write_text(parts[held_out])
        importance = scratch / f"importance-{held_out}.safetensors"
        run(quern, "eval", "ppl", model, "--text", scratch / "collect.txt", "--collect", importance)
        for rule, _ in RULES:
            folder = scratch / f"{rule.strip('-')}-{held_out if rule == '--importance' else 0}"
            if not folder.exists():
                convert(quern, model, folder, rule, importance)
            error, power = squared_error(original, tensors(folder))
            answer = json.loads(run(quern, "eval", "kl", model, folder, "--text", scratch / "measure.txt", "--json"))
            results[rule].append((error / power, answer))
    return results


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def print_table(results):
    scored = [answer["scored"] for _, answer in results["--rtn"]]
    base = results["--rtn"][0][0]
    print(f"{sum(scored)} positions in {len(scored)} parts\n")
    print("| rule | squared error | of OCP | mean KL | of OCP | median KL | 99 % | same first token | perplexity |")
    print("|---|---|---|---|---|---|---|---|---|")
    for rule, what in RULES:
        error = mean(e for e, _ in results[rule])

        def weighted(key, rule=rule):
            return sum(n * answer[key] for n, (_, answer) in zip(scored, results[rule])) / sum(scored)

        perplexity = math.exp(weighted("mean_nll_b"))
        ratio = weighted("mean_kl") / weighted("mean_kl", "--rtn")
        print(f"| {what} (`{rule}`) | {error:.5f} | {error / base:.4f} | {weighted('mean_kl'):.5f} | {ratio:.3f} "
              f"| {weighted('median_kl'):.5f} | {weighted('p99_kl'):.3f} | {100 * weighted('top1_agreement'):.2f} % "
              f"| {perplexity:.4f} |")
    original = math.exp(sum(n * a["mean_nll_a"] for n, (_, a) in zip(scored, results["--rtn"])) / sum(scored))
    print(f"| the original | 0 | | 0 | | 0 | 0 | | {original:.4f} |")
    print()
    for (before, _), (rule, what) in zip(RULES, RULES[1:]):
        pairs = [(a["mean_kl"], b["mean_kl"]) for (_, a), (_, b) in zip(results[before], results[rule])]
        print(f"{what}: smaller KL than {before} in {sum(b < a for a, b in pairs)} of {len(pairs)} parts, by part "
              + ", ".join(f"{b / a:.3f}" for a, b in pairs))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quern", required=True, type=pathlib.Path, help="the program")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "models/quern-tiny", help="BF16, with eval/*.jsonl")
    parser.add_argument("--splits", type=int, default=8, help="parts of the text, each measured in turn")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        print_table(measure(os.path.abspath(options.quern), options.model, options.splits, pathlib.Path(scratch)))


if __name__ == "__main__":
    main()
