"""A model whose routed experts stay on the disk: the same answers, told in its lines and at /metrics."""

import json
import re

import pytest

from chat_client import answer, chat
from crowd import in_threads, metric

DRAFTS = ("--speculative-config", '{"method": "mtp", "num_speculative_tokens": 2}')
SMALL = 2 << 20  # bytes: some of the shipped model's experts


def requests():
    texts = ("The secret code of Anna is 4711. What is the secret code of Anna?", "What is 12 plus 30?",
             " ".join(f"On day {n} the miller ground {n * 13 % 47} sacks." for n in range(40)))
    return [chat(text, max_tokens=30, logprobs=True, **fields) for text in texts
            for fields in ({"temperature": 0}, {"temperature": 1, "seed": 3})]


@pytest.mark.parametrize("flags", [(), DRAFTS], ids=["alone", "drafts"])
def test_answers_are_those_of_a_model_in_memory(start_server, flags):
    with_cache, without = start_server("--expert-cache", SMALL, *flags), start_server(*flags)
    told = in_threads([lambda body=body: answer(with_cache, body)["choices"] for body in requests()])
    assert told == [answer(without, body)["choices"] for body in requests()]
    needed = sum(metric(with_cache, f"quern:expert_cache_{name}_total") for name in ("hits", "late", "misses"))
    assert needed > metric(with_cache, "quern:expert_cache_misses_total") > 0
    assert metric(with_cache, "quern:expert_cache_read_bytes_total") > 0
    assert "quern:expert_cache" not in without.get("/metrics").body.decode()


def test_the_memory_is_told(run_quern, tiny):
    done = run_quern("run", tiny, "-p", "Hi", "--max-tokens", 2, "--expert-cache", SMALL)
    assert done.returncode == 0
    room, experts = re.search(rb"expert cache .*, (\d+) of (\d+) routed experts", done.stderr).groups()
    assert 0 < int(room) < int(experts)


def test_a_cache_that_is_too_small_is_refused(run_quern, tiny):
    done = run_quern("run", tiny, "-p", "Hi", "--expert-cache", 1000)
    assert done.returncode == 2
    least = int(re.search(rb"--expert-cache: .* give at least (\d+)", done.stderr).group(1))
    assert run_quern("run", tiny, "-p", "Hi", "--max-tokens", 2, "--expert-cache", least).returncode == 0


def test_bench_tells_the_share_in_memory(run_quern, tiny, tmp_path):
    out = tmp_path / "figures.json"
    done = run_quern("bench", "decode", tiny, "--expert-cache", SMALL, "--repeats", 3, "--context", 0, "--batch", "1,4",
                     "--out", out)
    assert done.returncode == 0, done.stderr
    assert re.search(rb"an expert cache for \d+ of \d+ routed experts", done.stdout)
    assert done.stdout.count(b"of them in memory;") == 2
    assert done.stdout.count(b"times the longer of") == 2
    assert len(re.findall(rb"experts guessed, [\d.]+ right and [\d.]+ wrong; [\d.]+ read ahead", done.stdout)) == 2
    figures = json.loads(out.read_text())
    assert 0 < figures["expert_cache"]["room"] < figures["expert_cache"]["experts"]
    for point in figures["points"]:
        told = point["expert_cache"]
        assert 0 < told["hits"] <= told["needed"]
        assert told["guessed_right"] <= told["guessed"] and told["ahead"] >= 0
        # in the mean of a sample; what was read ahead before it may be used in it
        assert 0 < told["missed_bytes"] < told["needed"] * figures["weight_bytes"]
        assert told["memory_ms"]["samples"] == told["disk_ms"]["samples"] == told["over_longer"]["samples"] == 3
        assert 0 <= told["memory_estimates"] <= 3
        assert 0 < told["memory_ms"]["min"] and 0 < told["over_longer"]["min"] <= told["over_longer"]["max"]
        longer = max(told["memory_ms"]["max"], told["disk_ms"]["max"])
        assert told["over_longer"]["max"] >= point["ms"]["max"] / longer * (1 - 1e-9)
    assert figures["expert_cache"]["disk_gbps"]["min"] > 0
