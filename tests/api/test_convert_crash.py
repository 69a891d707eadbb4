"""quern convert may die at any moment: the finished folder is always that of a run that nothing disturbed.

QUERN_CRASH_KILLS scales the number of kills, QUERN_CRASH_SEED repeats a run.
"""

import os
import random
import shutil
import signal
import subprocess
import time

import pytest

from synthetic_checkpoint import make_checkpoint

KILLS = int(os.environ.get("QUERN_CRASH_KILLS", "100"))
SIZES = {"hidden_size": 768, "moe_intermediate_size": 384, "n_routed_experts": 16}
FLAGS = ("--max-shard-size", "3m")
FILES = 16  # of weights


@pytest.fixture(name="dice", scope="module")
def dice_fixture():
    """Random numbers, whose seed a failing test shows."""
    seed = int(os.environ.get("QUERN_CRASH_SEED", random.randrange(1 << 32)))
    print(f"QUERN_CRASH_SEED={seed}")
    return random.Random(seed)


@pytest.fixture(name="source", scope="module")
def source_fixture(tmp_path_factory):
    folder = tmp_path_factory.mktemp("crash") / "source"
    make_checkpoint(folder, 1, 6, **SIZES)
    return folder


@pytest.fixture(name="start", scope="module")
def start_fixture(quern_bin):
    """start(source, out, *flags) starts a conversion."""

    def run(source, out, *flags):
        return subprocess.Popen([quern_bin, "convert", source, out, *FLAGS, *map(str, flags)],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    return run


class Undisturbed:
    """What a run that nothing disturbed wrote, and how long it took."""

    def __init__(self, start, source, out):
        began = time.monotonic()
        assert end(start(source, out))[0] == 0
        self.seconds = time.monotonic() - began
        self.files = files_of(out)

    def assert_same(self, out):
        found = files_of(out)
        assert found.keys() == self.files.keys()
        for name, content in self.files.items():
            assert found[name] == content, name


@pytest.fixture(name="undisturbed", scope="module")
def undisturbed_fixture(start, source):
    undisturbed = Undisturbed(start, source, source.parent / "undisturbed")
    assert len([name for name in undisturbed.files if name.endswith(".safetensors")]) == FILES
    return undisturbed


def end(run):
    """Waits for a run: its exit code and what it said."""
    _, said = run.communicate(timeout=120)
    return run.returncode, said.decode()


def files_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_unfinished(out):
    """A folder that is not finished is not taken for a checkpoint."""
    assert not (out / "config.json").exists() or (out / "quern-manifest.json").exists()


def run_for(run, seconds):
    """Kills a run after a time; whether it had ended well before."""
    try:
        run.wait(seconds)
    except subprocess.TimeoutExpired:
        run.kill()
    code, said = end(run)
    assert code in (0, -signal.SIGKILL), said
    return code == 0


def kill_until_done(start, source, out, seconds, kills, dice):
    """Runs that are killed after up to `seconds`, until one ends well or so many were killed, then one to the end.

    Returns how many were killed."""
    killed = 0
    while killed < kills:
        if run_for(start(source, out, "--threads", dice.randint(1, 3)), dice.uniform(0, seconds)):
            break
        killed += 1
        assert_unfinished(out)
    else:
        code, said = end(start(source, out))
        assert code == 0, said
    return killed


def test_killed_at_random_moments(start, source, undisturbed, dice, tmp_path):
    killed, chain = 0, 0
    while killed < KILLS:
        out = tmp_path / f"out-{chain}"
        # of four chains one is long, of runs that hardly get anywhere
        share = 0.2 if chain % 4 == 0 else 1.2
        killed += kill_until_done(start, source, out, share * undisturbed.seconds, min(40, KILLS - killed), dice)
        undisturbed.assert_same(out)
        shutil.rmtree(out)
        chain += 1


def test_killed_while_it_is_finished(start, source, undisturbed, dice, tmp_path):
    """The last steps, from weights to a checkpoint, are short beside the rest: kills that fall into them alone."""
    parts = tmp_path / "parts"
    assert end(start(source, parts, "--rest"))[0] == 0
    assert end(start(source, parts, "--layers", "0-3"))[0] == 0
    for i in range(max(1, KILLS // 10)):
        out = tmp_path / f"out-{i}"
        subprocess.run(["cp", "-al", parts, out], check=True)
        run_for(start(source, out, "--finalize"), dice.uniform(0, 0.1))
        assert_unfinished(out)
        code, said = end(start(source, out, "--finalize"))
        assert code == 0, said
        undisturbed.assert_same(out)
        shutil.rmtree(out)


@pytest.mark.parametrize("workers", [2, 3])
def test_runs_beside_each_other(start, source, undisturbed, dice, tmp_path, workers):
    """Several runs of everything on one folder, some of them killed, go on until one has finished it."""
    for i in range(max(1, KILLS // 50)):
        out, complete = tmp_path / f"out-{i}", False
        while not complete:
            runs = [start(source, out, "--threads", dice.randint(1, 2)) for _ in range(workers)]
            if dice.random() < 0.7:
                time.sleep(dice.uniform(0, undisturbed.seconds))
                dice.choice(runs).kill()
            for run in runs:
                code, said = end(run)
                assert code in (0, 1, -signal.SIGKILL), said
                assert code != 1 or "being written by" in said
                complete = complete or code == 0
        undisturbed.assert_same(out)
        shutil.rmtree(out)


def test_parts_beside_each_other(start, source, undisturbed, tmp_path):
    """Runs of parts that overlap leave nothing out."""
    out = tmp_path / "out"
    while True:
        runs = [start(source, out, *flags) for flags in (["--layers", "1-2"], ["--layers", "2-3"], ["--rest"])]
        codes = [end(run)[0] for run in runs]
        assert set(codes) <= {0, 1}
        if set(codes) == {0}:
            break
    assert end(start(source, out, "--finalize"))[0] == 0
    undisturbed.assert_same(out)


def test_a_source_file_that_goes_away(start, source, undisturbed, dice, tmp_path):
    """Truncated or removed at a random moment of a run, it is an error that names it."""
    inputs = tmp_path / "source"
    inputs.mkdir()
    for path in source.iterdir():
        (inputs / path.name).symlink_to(path)
    for i in range(max(2, KILLS // 12)):
        out, victim = tmp_path / f"out-{i}", dice.choice(sorted(inputs.glob("*.safetensors")))
        whole = victim.resolve()
        victim.unlink()
        shutil.copy(whole, victim)
        run = start(inputs, out)
        time.sleep(dice.uniform(0, undisturbed.seconds))
        if i % 2:
            victim.unlink()
        else:
            os.truncate(victim, dice.randrange(whole.stat().st_size))
        code, said = end(run)
        assert code == 0 or (code == 3 and victim.name in said), (code, said)
        victim.unlink(missing_ok=True)
        victim.symlink_to(whole)
        if code == 3:
            assert_unfinished(out)
            code, said = end(start(inputs, out))
            assert code == 0, said
        undisturbed.assert_same(out)
        shutil.rmtree(out)


def in_a_small_world(script, *arguments):
    """Runs a shell script in which file systems may be mounted; None where the machine allows that in no way."""
    for flags in ("-m", "-rm"):
        if subprocess.run(["unshare", flags, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True,
                          check=False).returncode == 0:
            return subprocess.run(["unshare", flags, "sh", "-ec", script, "sh", *map(str, arguments)],
                                  capture_output=True, check=False, timeout=300)
    return None


@pytest.mark.parametrize("megabytes", [2, 9, 25])
def test_disk_full(quern_bin, source, undisturbed, tmp_path, megabytes):
    """On a disk that is too small it says so and what it has is whole; with more space it goes on."""
    out = tmp_path / "out"
    out.mkdir()
    done = in_a_small_world(
        """mount -t tmpfs -o size=$1m none "$2"
        shift
        out=$1 kept=$2
        shift 2
        code=0
        "$@" || code=$?
        test $code = 4
        test ! -e "$out/inner/config.json"
        mount -o remount,size=1g "$out"
        "$@"
        cp -a "$out/inner" "$kept"
        """, megabytes, out, tmp_path / "kept", quern_bin, "convert", source, out / "inner", *FLAGS)
    if done is None:
        pytest.skip("SKIPPED: no file system can be mounted here, neither as root nor in a namespace of users")
    assert done.returncode == 0, done.stderr.decode()
    assert b"disk" in done.stderr
    undisturbed.assert_same(tmp_path / "kept")
