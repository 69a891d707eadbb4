"""--numa: what is told and refused, on whatever nodes there are; machines of several are made up in unit_base_numa."""

import os
import re
import subprocess

import pytest

from conftest import ROOT


def run(quern_bin, tiny, *flags):
    return subprocess.run([quern_bin, "run", str(tiny), "-p", "Say hello.", "--temperature", "0", "--max-tokens", "6",
                           *flags], capture_output=True, text=True, cwd=ROOT)


def has_one_node():
    with open("/proc/self/status") as status:
        found = re.search(r"^Mems_allowed_list:\s*(\d+)$", status.read(), re.MULTILINE)
    return found is not None


def test_answers_do_not_tell_where_memory_lies(quern_bin, tiny):
    runs = [run(quern_bin, tiny, "--numa", how) for how in ("off", "auto")]
    assert all(done.returncode == 0 for done in runs)
    assert len({done.stdout for done in runs}) == 1 and runs[0].stdout != ""
    assert "numa" not in runs[0].stderr


def test_interleaving_is_told_or_an_error(quern_bin, tiny):
    done = run(quern_bin, tiny, "--numa", "interleave")
    if done.returncode == 0:
        assert "numa: " in done.stderr
    else:
        assert done.returncode == 4
        assert "--numa: interleave: the system does not " in done.stderr
    if has_one_node():
        assert done.returncode == 0
        assert "numa: there is one node whose memory this process may use, " in done.stderr
        assert "numa" not in run(quern_bin, tiny, "--numa", "auto").stderr


@pytest.mark.parametrize("word, instead", [("distribute", "give interleave, and --cpu-binding auto"),
                                           ("isolate", "start quern under numactl --cpunodebind=N --membind=N"),
                                           ("numactl", "what numactl sets is kept: leave the option out"),
                                           ("on", "give auto, off or interleave"),
                                           ("", "give auto, off or interleave")])
def test_words_of_others_are_told(quern_bin, tiny, word, instead):
    done = run(quern_bin, tiny, f"--numa={word}")
    assert done.returncode == 2
    assert f"--numa: {word}: no such way: {instead}" in done.stderr


def test_bench_measures_other_threads(quern_bin, tiny):
    first = str(min(os.sched_getaffinity(0)))
    bench = [quern_bin, "bench", "decode", str(tiny), "--context", "0", "--batch", "1", "--repeats", "1"]
    done = subprocess.run([*bench, "--cpu-binding", first, "--numa", "auto"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0
    assert f"cpu-binding: threads that compute: 1, one on each of these CPUs: {first}" in done.stderr
    assert ", 1 thread" in done.stdout
    for flags in (["--cpu-binding", "none,"], ["--numa", "distribute"]):
        assert subprocess.run([*bench, *flags], capture_output=True, cwd=ROOT).returncode == 2
