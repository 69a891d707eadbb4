#!/usr/bin/env python3
"""Writes a random model that is small enough for prompts of 100,000 tokens on two cores, ready to be served.

    tools/synthetic_long.py DST [--quern PROGRAM]

Its config is tests/data/synthetic-long/config.json: three layers, 2,048 keys chosen by each query, a context of 131,072
tokens; its tokenizer and chat template are those of models/quern-tiny. It speaks no sense: it is for
`quern bench serve DST --stress`. Standard library only.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONFIG = ROOT / "tests" / "data" / "synthetic-long" / "config.json"
TINY = ROOT / "models" / "quern-tiny"
TEXT_FILES = ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dst", help="a new folder")
    parser.add_argument("--quern", default=str(ROOT / "build" / "release" / "quern"), help="the program")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as source:
        for file in [CONFIG, *(TINY / name for name in TEXT_FILES)]:
            shutil.copy(file, source)
        return subprocess.run([options.quern, "synth", source, options.dst], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
