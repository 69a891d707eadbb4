#!/usr/bin/env python3
"""Prints the line coverage of chosen sources from `llvm-cov export -summary-only` on stdin; fails below a percentage.

    llvm-cov export ... | tools/fuzz_coverage.py TARGET LEAST_PERCENT FILE_OR_FOLDER...
"""

import json
import pathlib
import sys


def main():
    target, least, names = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
    if not names:
        print(f"{target}: names no source: add a line /* covers: src/... */ at its head")
        return 1
    chosen = [pathlib.Path(name).resolve() for name in names]
    covered = total = 0
    for entry in json.load(sys.stdin)["data"][0]["files"]:
        path = pathlib.Path(entry["filename"])
        if path.suffix == ".c" and any(path == one or one in path.parents for one in chosen):
            lines = entry["summary"]["lines"]
            covered += lines["covered"]
            total += lines["count"]
            print(f"{target}:   {lines['percent']:6.1f} %  {lines['covered']:5d} of {lines['count']:5d} lines  "
                  f"{path.relative_to(pathlib.Path.cwd())}")
    if total == 0:
        print(f"{target}: nothing of {' '.join(names)} is in the program: correct the line /* covers: ... */")
        return 1
    percent = 100 * covered / total
    print(f"{target}: line coverage {percent:.1f} % of {' '.join(names)}{'' if percent >= least else ': FAILED'}"
          f" (at least {least:.0f} %)")
    return 0 if percent >= least else 1


if __name__ == "__main__":
    sys.exit(main())
