"""tools/check_includes.py catches the arrows it is there for."""

import pathlib
import subprocess
import sys

import pytest

TOOL = pathlib.Path(__file__).resolve().parent.parent.parent / "tools" / "check_includes.py"


def check(tmp_path, files):
    for name, text in files.items():
        path = tmp_path / (name if name.startswith("include/") else f"src/{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return subprocess.run([sys.executable, TOOL, tmp_path], capture_output=True, text=True, check=False)


def header(name):
    return f'#include "{name}"\n'


def test_arrows_that_point_down_pass(tmp_path):
    done = check(tmp_path, {
        "base/a.h": "#include <stddef.h>\n",
        "kv/b.h": header("base/a.h"),
        "model/c.c": header("kv/b.h") + header("base/a.h"),
        "engine/d.c": header("kv/b.h"),
    })
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("room, target", [
    ("base", "kv"), ("kv", "model"), ("kernels", "checkpoint"), ("text", "model"), ("model", "text"),
    ("engine", "server"), ("server", "cli"),
])
def test_arrow_up_or_sideways_fails(tmp_path, room, target):
    done = check(tmp_path, {f"{target}/t.h": "", f"{room}/deep/r.c": "  #  include \"" + f"{target}/t.h\"\n"})
    assert done.returncode == 1
    assert f"src/{room}/deep/r.c" in done.stderr and "up or sideways" in done.stderr


def test_path_not_written_from_src_fails(tmp_path):
    done = check(tmp_path, {"base/a.h": "", "base/a.c": header("a.h")})
    assert done.returncode == 1 and "no file of src/" in done.stderr


def test_file_outside_the_rooms_fails(tmp_path):
    done = check(tmp_path, {"attic/a.c": "", "loose.c": ""})
    assert done.returncode == 1 and done.stderr.count("lies in no room") == 2


def test_public_header_is_for_the_engine_and_above(tmp_path):
    files = {"include/quern/quern.h": "", "engine/a.c": header("quern/quern.h"), "cli/b.c": header("quern/quern.h")}
    assert check(tmp_path, files).returncode == 0
    done = check(tmp_path, {**files, "model/c.c": header("quern/quern.h")})
    assert done.returncode == 1 and "src/model/c.c" in done.stderr


def test_public_header_that_needs_src_fails(tmp_path):
    done = check(tmp_path, {"base/a.h": "", "include/quern/quern.h": header("base/a.h")})
    assert done.returncode == 1 and "include/quern/quern.h" in done.stderr
