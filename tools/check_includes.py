#!/usr/bin/env python3
"""Holds the order of the rooms: reads every #include of src/ and fails on an arrow that points up or sideways.

The order and its reasons are told in docs/design/001-rooms.md. A room may include itself and the rooms listed here;
every include of quern's own headers is written from src/: #include "base/error.h". The public header, quern/quern.h,
stands on nothing: it is for those who have no src/, and the engine and what lies above it may include it.
"""

import pathlib
import re
import sys

MAY_INCLUDE = {
    "base": [],
    "checkpoint": ["base"],
    "kernels": ["base"],
    "kv": ["base"],
    "schedule": ["base"],
    "grammar": ["base"],
    "model": ["base", "checkpoint", "kernels", "kv"],
    "text": ["base", "grammar"],
    "sampling": ["base"],
    "engine": ["base", "checkpoint", "kernels", "kv", "schedule", "grammar", "model", "text", "sampling"],
    "server": ["base", "checkpoint", "kernels", "kv", "schedule", "grammar", "model", "text", "sampling", "engine"],
    "convert": ["base", "checkpoint", "kernels"],
    "synth": ["base", "checkpoint", "kernels"],
    "bench": ["base", "checkpoint", "kernels", "kv", "grammar", "model", "text"],
    "plan": ["base", "checkpoint", "kernels", "kv", "grammar", "model", "text", "bench"],
    "cli": [
        *("base", "checkpoint", "kernels", "kv", "schedule", "grammar", "model", "text", "sampling"),
        *("engine", "server", "convert", "synth", "bench", "plan"),
    ],
}

PUBLIC = "quern"
MAY_INCLUDE_PUBLIC = ["engine", "server", "cli"]

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def check(root):
    """The complaints about the tree below root, one string each."""
    source = root / "src"
    for path in sorted(source.rglob("*.[ch]")):
        name = path.relative_to(root)
        parts = path.relative_to(source).parts
        room = parts[0]
        if len(parts) < 2 or room not in MAY_INCLUDE:
            yield f"{name}: lies in no room: move it below one of src/{{{','.join(MAY_INCLUDE)}}}"
            continue
        for included in INCLUDE.findall(path.read_text(encoding="utf-8")):
            target = included.split("/")[0]
            if target == PUBLIC and room in MAY_INCLUDE_PUBLIC:
                continue
            if not (source / included).is_file():
                yield f'{name}: "{included}" is no file of src/: write the path from src/, or <> for a system header'
            elif target != room and target not in MAY_INCLUDE[room]:
                allowed = ", ".join(MAY_INCLUDE[room]) or "no other room"
                yield f'{name}: "{included}" points up or sideways: {room} may include {allowed}'
    for path in sorted((root / "include").rglob("*.h")):
        for included in INCLUDE.findall(path.read_text(encoding="utf-8")):
            if included.split("/")[0] != PUBLIC:
                yield f'{path.relative_to(root)}: "{included}": a public header may include no header of src/'


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    complaints = list(check(root))
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    print(f"include order: {'in order' if not complaints else f'{len(complaints)} wrong'}")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
