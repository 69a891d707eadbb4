"""quern convert --watch and --delete-source-shards: sources that are still arriving, and that go when they are done."""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import pytest

from synthetic_checkpoint import make_checkpoint

INDEX = "model.safetensors.index.json"
FLAGS = ("--threads", "2", "--max-shard-size", "400000")
WATCH = {"QUERN_WATCH_MS": "10"}


@pytest.fixture(name="world", scope="module")
def world_fixture(quern_bin, tmp_path_factory):
    """A source of six files and the folder that an undisturbed run makes of it."""
    folder = tmp_path_factory.mktemp("watch")
    make_checkpoint(folder / "source", 7, 6)
    subprocess.run([quern_bin, "convert", folder / "source", folder / "expected", *FLAGS], check=True)
    return folder


def files_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def copy(folder, destination):
    shutil.copytree(folder, destination)
    return destination


class Run:
    """The command in the background; its lines on stderr go to a file."""

    def __init__(self, quern_bin, log, *arguments):
        self.log = log
        with open(log, "wb") as stderr:
            self.process = subprocess.Popen([quern_bin, "convert", *arguments], stderr=stderr,
                                            stdout=subprocess.DEVNULL, env={**os.environ, **WATCH})

    def said(self):
        return self.log.read_text(encoding="utf-8")

    def wait_for(self, condition):
        """Until it holds, or the process ends or half a minute is over."""
        for _ in range(3000):
            if condition():
                return
            assert self.process.poll() is None, self.said()
            time.sleep(0.01)
        raise AssertionError(self.said())

    def end(self):
        return self.process.wait(timeout=60)


@pytest.fixture(name="start")
def start_fixture(quern_bin, tmp_path):
    runs = []

    def start(*arguments):
        runs.append(Run(quern_bin, tmp_path / f"log-{len(runs)}", *arguments))
        return runs[-1]

    yield start
    for run in runs:
        if run.process.poll() is None:
            run.process.kill()
            run.process.wait()


def names_of(source):
    return sorted(path.name for path in source.glob("*.safetensors"))


def test_files_are_converted_as_they_arrive(world, start, tmp_path):
    """config and index last of all that is small, each file in two halves, with a marker, and whole."""
    source, arriving, out = world / "source", tmp_path / "arriving", tmp_path / "out"
    arriving.mkdir()
    run = start(arriving, out, "--watch", *FLAGS)
    run.wait_for(lambda: "waiting for " + str(arriving / "config.json") in run.said())
    shutil.copy(source / "config.json", arriving)
    text = (source / INDEX).read_bytes()
    (arriving / INDEX).write_bytes(text[:len(text) // 2])
    time.sleep(0.05)
    assert not out.exists()
    (arriving / INDEX).write_bytes(text)
    run.wait_for(out.exists)
    names = names_of(source)
    for i, name in enumerate(names):
        data = (source / name).read_bytes()
        if i % 2 == 0:
            (arriving / name).write_bytes(data[:len(data) // 2])
            time.sleep(0.03)
            with open(arriving / name, "ab") as file:
                file.write(data[len(data) // 2:])
        else:
            marker = arriving / (name + (".aria2", ".incomplete", ".part")[i // 2])
            marker.touch()
            (arriving / name).write_bytes(bytes(len(data)))
            time.sleep(0.03)
            (arriving / name).write_bytes(data)
            marker.unlink()
    assert run.end() == 0, run.said()
    assert files_of(out) == files_of(world / "expected")


def test_what_is_there_is_done_before_the_rest_arrives(world, start, tmp_path):
    arriving, out = copy(world / "source", tmp_path / "arriving"), tmp_path / "out"
    late = names_of(arriving)[-1]
    (arriving / late).rename(tmp_path / late)
    run = start(arriving, out, "--watch", *FLAGS)
    run.wait_for(lambda: len(list(out.glob("*.safetensors"))) >= 3 and late in run.said())
    assert not (out / "config.json").exists()
    run.process.send_signal(signal.SIGINT)
    assert run.end() == 1 and "stopped" in run.said()
    (tmp_path / late).rename(arriving / late)
    run = start(arriving, out, *FLAGS)
    assert run.end() == 0, run.said()
    assert files_of(out) == files_of(world / "expected")


def test_a_signal_ends_the_wait_for_the_index(start, tmp_path):
    (tmp_path / "empty").mkdir()
    run = start(tmp_path / "empty", tmp_path / "out", "--watch")
    run.wait_for(lambda: "waiting for" in run.said())
    run.process.terminate()
    assert run.end() == 1 and "stopped" in run.said() and not (tmp_path / "out").exists()


def test_without_watch_a_download_under_way_is_refused(world, run_quern, tmp_path):
    source = copy(world / "source", tmp_path / "source")
    marker = source / (names_of(source)[2] + ".aria2")
    marker.touch()
    done = run_quern("convert", source, tmp_path / "out", *FLAGS)
    assert done.returncode == 3 and b"is being downloaded" in done.stderr and b"--watch" in done.stderr


def test_disk_full_while_waiting(world, quern_bin, tmp_path):
    """The room that there was at the start is taken meanwhile: it says so, and goes on when there is some again."""
    arriving, out = copy(world / "source", tmp_path / "arriving"), tmp_path / "out"
    out.mkdir()
    late = names_of(arriving)[-1]
    (arriving / late).rename(tmp_path / late)
    script = """mount -t tmpfs -o size=50m none "$1"
        out=$1 late=$2 arriving=$3 kept=$4
        shift 4
        "$@" --watch & pid=$!
        until ls "$out"/inner/*.safetensors; do sleep 0.01; done
        while dd if=/dev/zero bs=64k count=1 >> "$out/filler"; do :; done
        mv "$late" "$arriving"
        code=0
        wait $pid || code=$?
        test $code = 4
        test ! -e "$out/inner/config.json"
        rm "$out/filler"
        "$@"
        cp -a "$out/inner" "$kept"
        """
    for flags in ("-m", "-rm"):
        if subprocess.run(["unshare", flags, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True,
                          check=False).returncode == 0:
            break
    else:
        pytest.skip("SKIPPED: no file system can be mounted here, neither as root nor in a namespace of users")
    arguments = [out, tmp_path / late, arriving, tmp_path / "kept", quern_bin, "convert", arriving, out / "inner", *FLAGS]
    done = subprocess.run(["unshare", flags, "sh", "-ec", script, "sh", *map(str, arguments)], capture_output=True,
                          check=False, timeout=120, env={**os.environ, **WATCH})
    assert done.returncode == 0, done.stderr.decode()
    assert b"free disk space" in done.stderr
    assert files_of(tmp_path / "kept") == files_of(world / "expected")


def test_source_files_go_when_all_of_them_is_converted(world, run_quern, tmp_path):
    source, out = copy(world / "source", tmp_path / "source"), tmp_path / "out"
    names = names_of(source)
    done = run_quern("convert", source, out, "--delete-source-shards", *FLAGS)
    assert done.returncode == 0, done.stderr.decode()
    assert names_of(source) == [] and (source / INDEX).exists() and (source / "config.json").exists()
    for name in names:
        assert f"{name}: removed: all its tensors lie in".encode() in done.stderr
    assert files_of(out) == files_of(world / "expected")
    again = run_quern("convert", source, out, "--delete-source-shards", *FLAGS)
    assert again.returncode == 0 and b"already complete" in again.stdout


def test_a_part_of_the_work_removes_only_what_no_other_needs(world, run_quern, tmp_path):
    source, out = copy(world / "source", tmp_path / "source"), tmp_path / "out"
    names = names_of(source)
    done = run_quern("convert", source, out, "--rest", "--delete-source-shards", *FLAGS)
    assert done.returncode == 0, done.stderr.decode()
    left = names_of(source)
    index = json.loads((source / INDEX).read_text())["weight_map"]
    with_experts = {file for name, file in index.items() if ".mlp.experts." in name}
    assert set(left) >= with_experts
    done = run_quern("convert", source, out, "--layers", "0-99", *FLAGS)
    assert done.returncode == 0, done.stderr.decode()
    assert names_of(source) == left and set(left) <= set(names)
    done = run_quern("convert", source, out, "--delete-source-shards", *FLAGS)
    assert done.returncode == 0, done.stderr.decode()
    assert names_of(source) == []
    assert files_of(out) == files_of(world / "expected")


def test_nothing_is_removed_when_the_output_does_not_read_back(world, run_quern, tmp_path):
    source, out = copy(world / "source", tmp_path / "source"), tmp_path / "out"
    names = names_of(source)
    assert run_quern("convert", source, out, "--rest", *FLAGS).returncode == 0
    assert run_quern("convert", source, out, "--layers", "0-99", *FLAGS).returncode == 0
    damaged = sorted(out.glob("*.safetensors"))[-1]
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 1
    damaged.write_bytes(data)
    done = run_quern("convert", source, out, "--delete-source-shards", *FLAGS)
    assert done.returncode == 1 and damaged.name.encode() in done.stderr
    assert b"other bytes than were written" in done.stderr
    index = json.loads((source / INDEX).read_text())["weight_map"]
    tensors = json.loads((out / ".quern-convert" / (damaged.name + ".json")).read_text())["tensors"]
    bases = {name.replace("weight_packed", "weight").replace("weight_scale", "weight") for name in tensors}
    assert {index[name] for name in bases} <= set(names_of(source)) <= set(names)
    damaged.unlink()
    done = run_quern("convert", source, out, "--delete-source-shards", *FLAGS)
    assert done.returncode == 0, done.stderr.decode()
    assert names_of(source) == [] and files_of(out) == files_of(world / "expected")


def test_links_and_single_files_are_refused_up_front(world, run_quern, tmp_path):
    source = copy(world / "source", tmp_path / "source")
    name = names_of(source)[-1]
    (source / name).rename(tmp_path / name)
    (source / name).symlink_to(tmp_path / name)
    done = run_quern("convert", source, tmp_path / "out", "--delete-source-shards", *FLAGS)
    assert done.returncode == 2 and b"is a symbolic link" in done.stderr and b"--local-dir" in done.stderr
    assert len(names_of(source)) == 6 and not list((tmp_path / "out").glob("*.safetensors"))
    oracle = pathlib.Path(__file__).resolve().parent.parent / "data" / "oracle" / "tiny-sparse"
    done = run_quern("convert", oracle, tmp_path / "other", "--delete-source-shards")
    assert done.returncode == 2 and b"one file without an index" in done.stderr
    done = run_quern("convert", source, tmp_path / "out", "--finalize", "--delete-source-shards", *FLAGS)
    assert done.returncode == 2 and b"--finalize: does nothing else" in done.stderr


def test_deaths_around_deletions_lose_nothing(world, start, tmp_path):
    """Killed at random moments, some of them with files arriving: what is not in the output is still in the source."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    dice = random.Random(seed)
    for turn in range(6):
        source, out = copy(world / "source", tmp_path / f"source-{turn}"), tmp_path / f"out-{turn}"
        deaths, code = 0, None
        while code != 0:
            run = start(source, out, "--delete-source-shards", *FLAGS, *(["--watch"] if turn % 2 else []))
            target = len(names_of(source)) - 1
            if dice.random() < 0.5:  # right after a removal
                while run.process.poll() is None and len(names_of(source)) > target:
                    pass
            else:
                time.sleep(dice.uniform(0, 0.08))
            if deaths < 12:
                run.process.kill()
            code = run.end()
            deaths += 1
            assert code in (0, -signal.SIGKILL), run.said()
        assert names_of(source) == []
        assert files_of(out) == files_of(world / "expected")


def test_two_runs_that_delete_beside_each_other(world, start, tmp_path):
    source, out = copy(world / "source", tmp_path / "source"), tmp_path / "out"
    runs = [start(source, out, "--delete-source-shards", *FLAGS, *part)
            for part in (["--rest", "--layers", "0-1"], ["--layers", "2-99"])]
    for run in runs:
        assert run.end() == 0, run.said()
    run = start(source, out, "--delete-source-shards", *FLAGS)
    assert run.end() == 0, run.said()
    assert names_of(source) == [] and files_of(out) == files_of(world / "expected")


def test_too_little_disk_is_told_before_anything_is_written(world, quern_bin, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    script = 'mount -t tmpfs -o size=300k none "$1"; shift; "$@"'
    for flags in ("-m", "-rm"):
        done = subprocess.run(["unshare", flags, "sh", "-ec", script, "sh", str(out), quern_bin, "convert",
                               str(world / "source"), str(out / "inner"), *FLAGS], capture_output=True, check=False)
        if b"still to be written" in done.stderr:
            assert done.returncode == 4 and b"B free: free disk space, or take another disk" in done.stderr
            return
    pytest.skip("SKIPPED: no file system can be mounted here, neither as root nor in a namespace of users")
