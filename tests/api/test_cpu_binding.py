"""--cpu-binding: which threads of a server are bound, what is told, and what is refused, on whatever CPUs there are. Made-up
machines are hwloc's, which then binds nothing, as is one that hides /proc and /sys."""

import os
import pathlib
import subprocess

import pytest

from chat_client import answer, chat
from conftest import ROOT


def run(quern_bin, tiny, *flags, **environment):
    env = {**os.environ, **environment}
    return subprocess.run([quern_bin, "run", str(tiny), "-p", "Say hello.", "--temperature", "0", "--max-tokens", "6",
                           *flags], capture_output=True, text=True, cwd=ROOT, env=env)


def threads_of(server):
    """(name, CPUs) of each thread of the server's process."""
    tasks = pathlib.Path(f"/proc/{server.process.pid}/task")
    for task in tasks.iterdir():
        try:
            yield (task / "comm").read_text().strip(), os.sched_getaffinity(int(task.name))
        except (FileNotFoundError, ProcessLookupError):
            pass  # one that ended just now


@pytest.mark.parametrize("binding", ["auto", "list", "none"])
def test_only_threads_that_compute_are_bound(start_server, binding):
    allowed = os.sched_getaffinity(0)
    how = ",".join(map(str, sorted(allowed))) if binding == "list" else binding
    server = start_server("--cpu-binding", how, "--max-model-len", "512")
    answer(server, chat("Count to 5.", max_tokens=4))
    bound = []
    for name, cpus in threads_of(server):
        if binding != "none" and (name.startswith("compute-") or name == "quern-engine"):
            assert len(cpus) == 1, name
            bound += cpus
        else:
            assert cpus == allowed, name
    assert len(bound) == len(set(bound))
    assert bool(bound) == (binding != "none")
    assert ("cpu-binding: threads that compute: " in server.stderr_text()) == (binding != "none")


def test_answers_do_not_tell_how_threads_are_bound(quern_bin, tiny):
    first = str(min(os.sched_getaffinity(0)))
    outputs = {run(quern_bin, tiny, "--cpu-binding", how).stdout for how in ("none", "auto", first)}
    assert len(outputs) == 1 and outputs != {""}


def test_a_cpu_that_may_not_be_used_is_named(quern_bin, tiny):
    other = max(os.sched_getaffinity(0)) + 1
    done = run(quern_bin, tiny, "--cpu-binding", str(other))
    assert done.returncode == 2
    assert f"--cpu-binding: {other}: not among the CPUs that this process may use: give some of " in done.stderr


def test_too_few_cpus_are_refused(quern_bin, tiny):
    first = str(min(os.sched_getaffinity(0)))
    done = run(quern_bin, tiny, "--cpu-binding", first, "--threads", "2")
    assert done.returncode == 2
    assert "--cpu-binding: CPUs named: 1, threads: 2: name one for each" in done.stderr


def test_more_threads_than_cores_are_told(quern_bin, tiny):
    done = run(quern_bin, tiny, "--cpu-binding", "auto", "--threads", "3", HWLOC_SYNTHETIC="numa:2 core:1 pu:2")
    assert done.returncode == 0
    assert "cpu-binding: threads are not bound: 3 are to compute, and there are cores for " in done.stderr


def test_a_machine_that_is_not_described_is_no_hindrance(quern_bin, tiny, tmp_path):
    for how in ("auto", str(min(os.sched_getaffinity(0)))):
        done = run(quern_bin, tiny, "--cpu-binding", how, HWLOC_FSROOT=str(tmp_path), HWLOC_THISSYSTEM="1")
        assert done.returncode == 0
        assert "cpu-binding: threads that compute: " in done.stderr


def test_names_of_others_are_told(quern_bin, tiny):
    for name in ("-C", "--cpu-mask", "-Cr", "--cpu-range"):
        done = run(quern_bin, tiny, name, "0-1")
        assert done.returncode == 2
        assert f"{name}: no such option of run: give --cpu-binding CPUS" in done.stderr
