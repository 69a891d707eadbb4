"""--kv-store: known beginnings of prompts are kept on disk, through restarts, kills, damage and full disks.

QUERN_KV_CRASH_KILLS scales the number of kills, QUERN_KV_CRASH_SEED repeats a run.
"""

import http.client
import json
import os
import random
import shutil
import signal
import subprocess
import threading
import time

import pytest

from chat_client import CHAT, answer, chat
from conftest import ROOT
from crowd import in_threads, metric, wait_for
from kv_folder import TEMPORARY, assert_whole, block_files, bytes_of, files_in
from server_process import Server

KILLS = int(os.environ.get("QUERN_KV_CRASH_KILLS", "50"))
CLIENTS = 3
BLOCK = 16
BLOCKS = ("--block-size", BLOCK)
DRAFTS = ("--speculative-config", '{"method": "mtp", "num_speculative_tokens": 2}')
# a sanitized build computes a long prompt for minutes
ITEMS = 40 if {"ASAN_OPTIONS", "TSAN_OPTIONS"} & set(os.environ) else 200
LONG_TEXT = " ".join(f"Item {n} of the list costs {n * 37 % 101} coins." for n in range(ITEMS))
SAMPLINGS = ({"temperature": 0}, {"temperature": 1.1, "seed": 7, "top_p": 0.95})


def prompts_of(count, words=30):
    """Requests of which groups of three share a long beginning, and all share a short one."""
    return [chat(f"You count well. {'One two three. ' * 12} Group {at // 3}: {'four five six ' * words} now {at}?",
                 max_tokens=6, **SAMPLINGS[at % 2]) for at in range(count)]


def ask(server, body):
    """What an answer is compared by, and how many tokens of its prompt were known."""
    told = answer(server, body)
    return told["choices"], told["timings"]["cached_tokens"]


def full_blocks(told, block):
    """Tokens of a prompt that can be known: whole blocks, and the last token is always computed."""
    return (told["usage"]["prompt_tokens"] - 1) // block * block


def settled(server, folder):
    """Stops a server, which writes all that it has; nothing half-done is left."""
    assert server.stop() is None
    assert_whole(folder)


@pytest.mark.parametrize("drafts", [(), DRAFTS], ids=["alone", "drafts"])
def test_a_restarted_server_knows_a_long_prompt(server, start_server, tmp_path, drafts):
    folder = tmp_path / "kv"
    flags = ("--kv-store", folder, "--enable-prompt-tokens-details", *drafts)
    bodies = [chat(LONG_TEXT, max_tokens=24, **sampling) for sampling in SAMPLINGS]
    expected = [answer(server, body)["choices"] for body in bodies]
    first = start_server(*flags)
    computed = answer(first, bodies[0])
    assert computed["usage"]["prompt_tokens"] > 10 * ITEMS
    assert computed["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert computed["choices"] == expected[0]
    settled(first, folder)
    second = start_server(*flags)
    for body, choices in zip(bodies, expected):
        known = answer(second, body)
        assert known["usage"]["prompt_tokens_details"]["cached_tokens"] == full_blocks(known, 128)
        assert known["choices"] == choices
    rest = known["usage"]["prompt_tokens"] - full_blocks(known, 128)
    assert metric(second, "quern:prefill_tokens_total") == 2 * rest
    assert metric(second, "quern:kv_store_hits_total") == full_blocks(known, 128)


def test_a_conversation_goes_on_after_a_restart(server, start_server, tmp_path):
    """What was answered is known too when it comes back as a part of the next prompt."""
    flags = ("--kv-store", tmp_path / "kv", *BLOCKS)
    body = chat("Name a colour. " * 20, max_tokens=40, temperature=0)
    for _ in range(3):
        running = start_server(*flags)
        told = answer(running, body)
        assert told["choices"] == answer(server, body)["choices"]
        if len(body["messages"]) > 1:
            assert told["timings"]["cached_tokens"] >= known
        known = full_blocks(told, BLOCK)
        body = {**body, "messages": [*body["messages"], told["choices"][0]["message"],
                                     {"role": "user", "content": "And one more? " * 10}]}
        settled(running, tmp_path / "kv")


# ---- kills ----


@pytest.fixture(name="dice")
def dice_fixture():
    """Random numbers, whose seed a failing test shows."""
    seed = int(os.environ.get("QUERN_KV_CRASH_SEED", random.randrange(1 << 32)))
    print(f"QUERN_KV_CRASH_SEED={seed}")
    return random.Random(seed)


class Crowd:
    """Clients that ask one prompt after the other until their server dies; what they got is held against `expected`."""

    def __init__(self, server, bodies, expected, seed):
        self.answered, self.wrong = 0, []
        self._threads = [threading.Thread(target=self._ask, args=(server, bodies, expected, random.Random(seed + at)))
                         for at in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def _ask(self, server, bodies, expected, dice):
        while True:
            at = dice.randrange(len(bodies))
            try:
                response = server.post(CHAT, bodies[at])
            except (OSError, http.client.HTTPException):
                return  # the server is gone
            if response.status == 200 and response.json()["choices"] == expected[at]:
                self.answered += 1
            else:
                self.wrong.append((at, response.status, response.body))

    def join(self):
        for thread in self._threads:
            thread.join()


def kill(server):
    assert f"exit code: {-signal.SIGKILL}" in server.stop(signal.SIGKILL)


def assert_consistent(server):
    """A server that found, and read, whole blocks alone."""
    assert not [line for line in server.stderr if " removed " in line], server.stderr_text()


def test_killed_at_random_moments(quern_bin, tiny, server, start_server, dice, tmp_path):
    """Kills while it starts, reads, writes and makes room, with and without drafts; a right answer after each."""
    folder, bodies = tmp_path / "kv", prompts_of(9)
    expected = [answer(server, body)["choices"] for body in bodies]
    flags, answered = ("--kv-store", folder, *BLOCKS), 0
    for _ in range(KILLS):
        bound = dice.choice(("1M", "3M", "64G"))
        running = Server(quern_bin, tiny, (*flags, "--kv-store-size", bound, *dice.choice(((), DRAFTS))), None, ROOT)
        try:
            if dice.random() < 0.2:
                time.sleep(dice.uniform(0, 0.1))
                continue
            running.wait_until_ready()
            assert_consistent(running)
            at = dice.randrange(len(bodies))
            assert ask(running, bodies[at])[0] == expected[at]
            crowd = Crowd(running, bodies, expected, dice.randrange(1 << 32))
            time.sleep(dice.uniform(0, 0.4))
        finally:
            kill(running)
        crowd.join()
        assert not crowd.wrong
        answered += 1 + crowd.answered
    assert answered >= KILLS // 2
    check_after_kills(start_server, flags, folder, bodies, expected)


def check_after_kills(start_server, flags, folder, bodies, expected):
    """Every block of every chain is read once more, and what a stopped server leaves behind is whole."""
    running = start_server(*flags)
    assert_consistent(running)
    assert not (folder / TEMPORARY).exists()
    assert_whole(folder)
    assert [ask(running, body)[0] for body in bodies] == expected
    assert_consistent(running)
    settled(running, folder)
    again = start_server(*flags)
    for body, choices in zip(bodies, expected):
        told = answer(again, body)
        assert told["choices"] == choices
        assert told["timings"]["cached_tokens"] == full_blocks(told, BLOCK)
    assert_consistent(again)


# ---- what must not meet ----


def model_with(tiny, folder, **changed):
    """The shipped model with other values in its config."""
    shutil.copytree(tiny, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, **changed}), encoding="utf-8")
    return folder


def test_blocks_of_others_are_never_used(start_server, tiny, tmp_path):
    """One folder, in turn, for models and flags that compute other contents: each knows its own alone."""
    other = model_with(tiny, tmp_path / "other", routed_scaling_factor=2.25)
    variants = [(tiny, BLOCKS), (other, BLOCKS), (tiny, (*BLOCKS, "--dsa-dense-below", 4096)),
                (tiny, ("--block-size", 32)), (tiny, (*BLOCKS, *DRAFTS)), (tiny, (*BLOCKS, "--mla-norm-eps", "1e-5"))]
    store = ("--kv-store", tmp_path / "kv")
    body = chat(LONG_TEXT[:1800], max_tokens=16, temperature=0, model="m")
    for model, flags in variants:
        named = (*flags, "--served-model-name", "m")
        alone = start_server(*named, model=model)
        expected = ask(alone, body)[0]
        assert alone.stop() is None
        for round_number in range(2):
            running = start_server(*named, *store, model=model)
            choices, known = ask(running, body)
            assert choices == expected
            assert (known > 256) == (round_number == 1)
            settled(running, tmp_path / "kv")
    first = start_server(*variants[0][1], *store, "--served-model-name", "m")
    assert ask(first, body)[1] > 256


def test_salts_do_not_meet_on_disk(start_server, tmp_path):
    flags, body = ("--kv-store", tmp_path / "kv", *BLOCKS), prompts_of(1)[0]
    salts = ({"cache_salt": "a"}, {"cache_salt": "b"}, {})
    for known in (False, True):
        running = start_server(*flags)
        for salt in salts:
            assert (ask(running, {**body, **salt})[1] > 0) == known
        settled(running, tmp_path / "kv")


# ---- bounds ----


def test_the_bound_holds(server, start_server, tmp_path):
    """At every moment; a smaller one at the next start too. What is left is a beginning of what was asked last."""
    folder, bodies, sums, over = tmp_path / "kv", prompts_of(9), [], threading.Event()
    running = start_server("--kv-store", folder, *BLOCKS, "--kv-store-size", "1M")

    def watch():
        # a file that is there before and after was there in between, beside all others of which that holds
        before = files_in(folder)
        while not over.wait(0.002):
            now = files_in(folder)
            sums.append(sum(size for file, size in before.items() if now.get(file) == size))
            before = now

    watcher = threading.Thread(target=watch)
    watcher.start()
    for body in bodies:
        assert ask(running, body)[0] == answer(server, body)["choices"]
    settled(running, folder)
    over.set()
    watcher.join()
    assert 1 << 19 < bytes_of(folder) <= 1 << 20
    assert 1 << 19 < max(sums) <= 1 << 20
    smaller = start_server("--kv-store", folder, *BLOCKS, "--kv-store-size", "300k")
    assert bytes_of(folder) <= 300 << 10
    choices, known = ask(smaller, bodies[-1])
    assert choices == answer(server, bodies[-1])["choices"]
    assert known > 0
    settled(smaller, folder)
    assert bytes_of(folder) <= 300 << 10


def test_a_bound_below_a_block_is_refused(run_quern, tiny, tmp_path):
    done = run_quern("serve", tiny, "--port", "0", "--kv-store", tmp_path / "kv", "--kv-store-size", "1k")
    assert done.returncode == 2
    assert b"one block takes" in done.stderr


def test_a_folder_has_one_server(run_quern, start_server, tiny, tmp_path):
    """The second says whose it is; after a kill the folder is free at once."""
    folder = tmp_path / "kv"
    first = start_server("--kv-store", folder)
    second = run_quern("serve", tiny, "--port", "0", "--kv-store", folder)
    assert second.returncode == 4
    assert str(folder) in second.stderr.decode() and str(first.process.pid) in second.stderr.decode()
    kill(first)
    start_server("--kv-store", folder)


# ---- damage ----


def flip(path, offset):
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x10]))


def swap(path, other):
    """Two blocks under each other's names."""
    kept = path.read_bytes()
    path.write_bytes(other.read_bytes())
    other.write_bytes(kept)


DAMAGES = {
    "contents": lambda paths: [flip(path, path.stat().st_size // 2) for path in paths],
    "header": lambda paths: [flip(path, 100) for path in paths],
    "tokens": lambda paths: [flip(path, 112) for path in paths],
    "truncated": lambda paths: [os.truncate(path, path.stat().st_size - 1) for path in paths],
    "headless": lambda paths: [os.truncate(path, 77) for path in paths],
    "empty": lambda paths: [os.truncate(path, 0) for path in paths],
    "longer": lambda paths: [os.truncate(path, path.stat().st_size + 4096) for path in paths],
    "swapped": lambda paths: swap(paths[0], paths[-1]),
    "foreign": lambda paths: [path.write_bytes(random.randbytes(9000)) for path in paths],
}


@pytest.fixture(name="filled", scope="module")
def filled_fixture(quern_bin, tiny, tmp_path_factory):
    """A folder with the blocks of one prompt, the prompt, and its answer."""
    folder, body = tmp_path_factory.mktemp("filled") / "kv", prompts_of(1)[0]
    running = Server(quern_bin, tiny, ("--kv-store", folder, *BLOCKS), None, ROOT)
    running.wait_until_ready()
    choices = ask(running, body)[0]
    settled(running, folder)
    return folder, body, choices


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_removed_and_computed_again(start_server, filled, tmp_path, damage):
    folder, (source, body, expected) = tmp_path / "kv", filled
    shutil.copytree(source, folder)
    paths = block_files(folder)
    assert len(paths) > 8
    DAMAGES[damage](paths[::3])
    (folder / TEMPORARY).write_bytes(b"half a block")
    running = start_server("--kv-store", folder, *BLOCKS)
    assert ask(running, body)[0] == expected
    assert [line for line in running.stderr if " removed " in line], running.stderr_text()
    settled(running, folder)
    again = start_server("--kv-store", folder, *BLOCKS)
    told = answer(again, body)
    assert told["choices"] == expected
    assert told["timings"]["cached_tokens"] == full_blocks(told, BLOCK)
    assert_consistent(again)


def test_files_that_go_while_it_runs_are_computed_again(start_server, filled, tmp_path):
    folder, (source, body, expected) = tmp_path / "kv", filled
    shutil.copytree(source, folder)
    running = start_server("--kv-store", folder, *BLOCKS)
    for path in block_files(folder)[::2]:
        path.unlink()
    assert ask(running, body)[0] == expected
    settled(running, folder)


def may_mount():
    return subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True,
                          check=False).returncode == 0


def test_a_full_disk_costs_blocks_alone(quern_bin, tiny, server, tmp_path):
    """It says so once, answers go on, and with more space so does the store."""
    if not may_mount():
        pytest.skip("SKIPPED: no file system can be mounted here")
    folder, script, bodies = tmp_path / "kv", tmp_path / "quern", prompts_of(6)
    folder.mkdir()
    # the server's own disk: mounted where nobody else sees it
    script.write_text(f"""#!/bin/sh
exec unshare -m sh -ec 'mount -t tmpfs -o size=400k none "{folder}"; exec "{quern_bin}" "$@"' sh "$@"
""", encoding="utf-8")
    script.chmod(0o755)
    running = Server(script, tiny, ("--kv-store", folder, *BLOCKS), None, ROOT)
    try:
        running.wait_until_ready()
        for body in bodies:
            assert ask(running, body)[0] == answer(server, body)["choices"]
        wait_for(lambda: "writes nothing for a while" in running.stderr_text())
        assert in_threads([lambda body=body: ask(running, body)[0] for body in bodies]) == \
            [answer(server, body)["choices"] for body in bodies]
    finally:
        assert running.stop() is None
    assert len([line for line in running.stderr if "writes nothing" in line]) == 1
