"""More clients than a server takes: each is answered or told when to come again, and the server stays as it was."""

import json
import os
import pathlib
import re

import pytest

from chat_client import answer, chat
from crowd import load, metric, wait_for

CLIENTS = 120
SECONDS = 8
# What memory may grow by from after a crowd to after the next: allocators keep what threads freed, in pieces that do not
# always fit together again. A leak of 100 bytes a request would be more, after each crowd; what allocators keep is more
# after some, where many threads met for the first time.
MARGIN_BYTES = 8 << 20
CROWDS = 4
# A sanitizer keeps freed memory and threads that ended for a while; it finds leaks by itself.
SANITIZED = any(name in os.environ for name in ("ASAN_OPTIONS", "TSAN_OPTIONS"))


def resources(server):
    """Resident bytes, threads and descriptors of a server's process."""
    process = pathlib.Path("/proc") / str(server.process.pid)
    status = (process / "status").read_text(encoding="ascii")
    resident, threads = (int(re.search(rf"^{name}:\s+(\d+)", status, re.MULTILINE).group(1))
                         for name in ("VmRSS", "Threads"))
    return resident << 10, threads, len(list((process / "fd").iterdir()))


def settle(server, threads, descriptors):
    """Until a server has no request, and no more threads and descriptors than it had."""
    wait_for(lambda: load(server) == (0, 0))
    wait_for(lambda: all(now <= then for now, then in zip(resources(server)[1:], (threads, descriptors))))


@pytest.fixture(name="crowd")
def crowd_fixture(run_quern):
    """crowd(server, seconds) lets CLIENTS at it; what the bench told of them."""

    def run(server, seconds):
        done = run_quern("bench", "serve", "--base-url", server.base_url, "--overload", seconds, "--clients", CLIENTS,
                         "--max-tokens", 4, "--json")
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)["settings"][0]["overload"]["requests"]

    return run


@pytest.fixture(name="small_server")
def small_server_fixture(start_server):
    """With room for few of them."""
    return start_server("--max-num-seqs", 8, "--max-queue", 16, "--block-size", 16, "--kv-cache-memory", "64M")


def test_overload_loses_nobody_and_leaves_nothing(small_server, crowd):
    body = chat("What is 3 plus 4?", temperature=0, max_tokens=12)
    expected = answer(small_server, body)["choices"]
    wait_for(lambda: load(small_server) == (0, 0))
    _, threads, descriptors = resources(small_server)
    crowd(small_server, SECONDS / 4)
    settle(small_server, threads, descriptors)
    sizes = [resources(small_server)[0]]
    for _ in range(CROWDS):
        refused = metric(small_server, "quern:requests_refused_total")
        requests = crowd(small_server, SECONDS)
        settle(small_server, threads, descriptors)
        assert requests["failed"] == requests["cut_off"] == 0
        assert requests["finished"] > 0
        assert requests["refusals"] > 0 and requests["refusals_without_retry_after"] == 0
        assert metric(small_server, "quern:requests_refused_total") - refused == requests["refusals"]
        assert metric(small_server, "vllm:kv_cache_usage_perc") == 0
        assert answer(small_server, body)["choices"] == expected
        sizes.append(resources(small_server)[0])
        if SANITIZED or sizes[-1] <= sizes[-2] + MARGIN_BYTES:
            return
    raise AssertionError(f"memory grows with every crowd: {sizes}")
