#!/usr/bin/env python3
"""Holds quern plan's predictions against what quern measures of itself, on random slices with real layer dimensions.

For each slice: `quern synth` writes it, then `quern bench hw` and `quern run` take turns. A measurement is held against
the prediction from the figures just before and after it, since the speed of a shared machine drifts. Each one gets a
line on stderr with its largest parts and the machine's load; the table has medians and the ratio's spread.
Takes minutes and some GB, and depends on speed: it is no part of CI. Best on a machine with nothing else to do.

    tools/check_plan.py [--quern PROGRAM] [--folder DIR] [--rounds N] [--slice NAME ...] [--seconds S] [--keep]

Standard library only. Ends with exit code 1 when a median ratio is more than 20 % off.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONFIG = ROOT / "tests" / "data" / "glm-5.3" / "config.json"
TINY = ROOT / "models" / "quern-tiny"
ALLOWED = 0.20

REAL = ["--layers", "3", "--sparse-from", "1", "--vocab", "16384", "--no-mtp"]
# Fields of the config that differ from GLM-5.3's, arguments of synth, form of the experts, tokens of the prompts that
# are timed, contexts at which decoding is, tokens decoded.
SLICES = {
    "real-mxfp4": {
        "config": {}, "synth": [*REAL, "--experts", "32"], "form": "mxfp4",
        "prompts": [512], "contexts": [0], "decode": 24,
    },
    "real-bf16": {
        "config": {}, "synth": [*REAL, "--experts", "16"], "form": "bf16",
        "prompts": [512], "contexts": [0], "decode": 16,
    },
    "half-mxfp4": {
        "config": {"hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 1024,
                   "num_attention_heads": 32, "num_key_value_heads": 32, "q_lora_rank": 1024, "qk_nope_head_dim": 128,
                   "v_head_dim": 128, "index_n_heads": 16, "qk_head_dim": 192},
        "synth": ["--layers", "5", "--sparse-from", "1", "--experts", "64", "--vocab", "8192", "--no-mtp"],
        "form": "mxfp4", "prompts": [512, 2048], "contexts": [0], "decode": 48,
    },
}


def quern(options, *arguments):
    """The command's standard output; a failure ends the program."""
    done = subprocess.run([options.quern, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"quern {' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return done.stdout


def make_slice(options, work, name):
    """The folder of a slice, with a tokenizer of few tokens so that text can be given to it."""
    spec = SLICES[name]
    config = json.loads(CONFIG.read_text(encoding="utf-8"))
    config.update(spec["config"])
    source, folder = work / f"{name}.json", work / name
    source.write_text(json.dumps(config), encoding="utf-8")
    quern(options, "synth", source, folder, "--format", spec["form"], *spec["synth"])
    for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(TINY / file, folder / file)
    return folder


def text_of(options, tokens, seed):
    """A text of exactly so many tokens, of many kinds, so that the router's choices differ."""
    draw = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz"

    def encode(text):
        done = subprocess.run([options.quern, "text", "encode", "--tokenizer", TINY], input=text, capture_output=True,
                              text=True, check=True)
        return json.loads(done.stdout)

    words = ["".join(draw.choice(letters) for _ in range(draw.randrange(2, 9))) for _ in range(tokens)]
    low, high = 0, len(words)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if len(encode(" ".join(words[:middle]))) <= tokens else (low, middle)
    text = " ".join(words[:low])
    for _ in range(1000):
        count = len(encode(text))
        if count == tokens:
            return text
        text = text[:-1] if count > tokens else text + draw.choice(["\n", " ", "7", "q", "."])
    sys.exit(f"no text of {tokens} tokens found")


def measure(options, folder, text, tokens, rows):
    """Seconds of the prompt, seconds of a decode step, tokens of the prompt."""
    told = json.loads(quern(options, "run", folder, "--raw", "--json", "--temperature", "0", "--max-tokens", tokens,
                            "--max-model-len", len(text) + tokens + 64, "--max-num-batched-tokens", rows, "-p", text))
    timings = told["timings"]
    steps = timings["decode_steps"]
    step = timings["decode_seconds"] / steps if steps > tokens // 2 else None
    return timings["prompt_seconds"], step, told["usage"]["prompt_tokens"]


def predict(options, folder, figures):
    return json.loads(quern(options, "plan", folder, "--hw", figures, "--json",
                            "--max-num-batched-tokens", options.rows))


def middle_figures(paths, out):
    """Figures whose medians are the means of those of the files: what the machine gave around a measurement."""
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    merged = documents[0]

    def merge(target, others):
        for field in ("min", "median", "max"):
            target[field] = statistics.mean(other[field] for other in others)

    for name, figure in merged["figures"].items():
        merge(figure, [document["figures"][name] for document in documents])
    for i, read in enumerate(merged["memory_read"]):
        for pages in ("huge_pages", "small_pages"):
            merge(read[pages], [document["memory_read"][i][pages] for document in documents])
    out.write_text(json.dumps(merged), encoding="utf-8")
    return out


def check_slice(options, work, name):
    """[(what, predicted, measured, ratio per round)], tokens/s."""
    spec, folder = SLICES[name], make_slice(options, work, name)
    results = {}
    cases = [("prompt", tokens) for tokens in spec["prompts"]] + [("decode", context) for context in spec["contexts"]]
    texts = {case: text_of(options, max(case[1], 24), 5) for case in cases}
    measure(options, folder, texts[cases[0]], 4, options.rows)  # fills the page cache
    before = work / "before.json"
    quern(options, "bench", "hw", "--seconds", options.seconds, "--out", before)
    for turn in range(options.rounds):
        for case in cases:
            kind, size = case
            tokens = spec["decode"] if kind == "decode" else 1
            prompt, step, count = measure(options, folder, texts[case], tokens, options.rows)
            after = work / "after.json"
            quern(options, "bench", "hw", "--seconds", options.seconds, "--out", after)
            speed = predict(options, folder, middle_figures([before, after], work / "hw.json"))[spec["form"]]["speed"]
            after.replace(before)
            if kind == "prompt":
                assert count == size, f"{count} tokens where {size} were meant"
                entry = next(entry for entry in speed["prefill"] if entry["tokens"] == size)
                measured = size / prompt
            elif step is None:
                continue
            else:
                entry = next(entry for entry in speed["decode"] if entry["context"] == size)
                measured = 1 / step
            predicted = entry["tokens_per_second"]
            results.setdefault(case, []).append((predicted, measured))
            print(f"  {name} round {turn + 1}: {kind} {size}: predicted {predicted:.2f}, measured {measured:.2f}, "
                  f"ratio {predicted / measured:.2f}, load {os.getloadavg()[0]:.1f}; {shares(entry)}", file=sys.stderr)
    if not options.keep:
        shutil.rmtree(folder)
    return [(f"{kind} {size}", values) for (kind, size), values in results.items()]


def shares(entry):
    parts = sorted(entry["parts"].items(), key=lambda part: -part[1])[:5]
    return ", ".join(f"{name} {100 * value / entry['seconds']:.0f} %" for name, value in parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quern", default=os.environ.get("QUERN_BIN") or ROOT / "build" / "release" / "quern")
    parser.add_argument("--folder", help="where the slices go for a while (default: the system's temporary folder)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=512, help="--max-num-batched-tokens")
    parser.add_argument("--seconds", type=float, default=6, help="of each measurement of the hardware")
    parser.add_argument("--slice", nargs="+", choices=SLICES, default=list(SLICES))
    parser.add_argument("--keep", action="store_true", help="leave the slices")
    options = parser.parse_args()
    worst = 0
    rows = []
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="quern-plan-") as work:
        for name in options.slice:
            for what, values in check_slice(options, pathlib.Path(work), name):
                ratios = sorted(predicted / measured for predicted, measured in values)
                ratio = statistics.median(ratios)
                worst = max(worst, abs(ratio - 1))
                rows.append(f"| {name} | {what} | {statistics.median(v[0] for v in values):.2f} | "
                            f"{statistics.median(v[1] for v in values):.2f} | {ratio:.2f} | "
                            f"{ratios[0]:.2f}–{ratios[-1]:.2f} |")
    print("| slice | what | predicted, tokens/s | measured | ratio | spread |\n|---|---|---|---|---|---|")
    print("\n".join(rows))
    return 0 if worst <= ALLOWED else 1


if __name__ == "__main__":
    sys.exit(main())
