"""Clients that go away at any moment: nothing of them stays, and others get what they would have got.

QUERN_HANGUPS_SEED repeats a run.
"""

import json
import os
import pathlib
import random
import socket
import struct
import time
import urllib.parse

import pytest

from chat_client import CHAT, answer, chat
from crowd import in_threads, load, metrics, wait_for

HANGUPS = 200
CLIENTS = 8
DRAFTS = ("--speculative-config", '{"method": "mtp", "num_speculative_tokens": 2}')
# room for some of the clients' contexts: others wait, or are put back
FLAGS = ("--block-size", 16, "--max-num-seqs", 4, "--max-model-len", 1024, "--kv-cache-memory", "3M")


@pytest.fixture(name="seed")
def seed_fixture():
    """Of all random numbers; a failing test shows it."""
    seed = int(os.environ.get("QUERN_HANGUPS_SEED", random.randrange(1 << 32)))
    print(f"QUERN_HANGUPS_SEED={seed}")
    return seed


def random_body(dice):
    sampling = dice.choice(({"temperature": 0}, {"temperature": 1.1}, {"temperature": 1, "presence_penalty": 1},
                            {"temperature": 1, "logprobs": True, "top_logprobs": 4}))
    text = f"{dice.choice(('Tell', 'Sing', 'Say'))} me of the sea. " + "Wave after wave. " * dice.choice((0, 5, 60))
    return chat(text, max_tokens=dice.randint(1, 600), ignore_eos=True, n=dice.choice((1, 1, 1, 3)),
                stream=dice.random() < 0.7, **sampling)


def hang_up(server, dice):
    """A request that is left: half sent, waiting, in its prompt or in its answer; with a farewell or with a reset."""
    address = urllib.parse.urlsplit(server.base_url)
    body = json.dumps(random_body(dice)).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    sent = head.encode() + body
    with socket.create_connection((address.hostname, address.port)) as connection:
        if dice.random() < 0.1:
            connection.sendall(sent[:dice.randrange(len(sent))])
        else:
            connection.sendall(sent)
            connection.settimeout(dice.choice((0.0005, 0.05, 0.3, 1)))
            try:
                for _ in range(dice.randrange(200)):
                    if not connection.recv(1 << 12):
                        break
            except TimeoutError:
                pass
        if dice.random() < 0.5:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def threads_and_descriptors(server):
    process = pathlib.Path("/proc") / str(server.process.pid)
    return len(list((process / "task").iterdir())), len(list((process / "fd").iterdir()))


@pytest.mark.parametrize("drafts", [(), DRAFTS], ids=["alone", "drafts"])
def test_hangups_at_random_moments(start_server, seed, drafts):
    """Meanwhile two clients stay, and get their answers whole."""
    server = start_server(*FLAGS, *drafts)
    kept = [chat("Count the boats in the harbour. " * 6, max_tokens=60, ignore_eos=True, temperature=1, seed=at)
            for at in range(6)]
    expected = [answer(server, body)["choices"] for body in kept]
    time.sleep(0.1)  # connections of these end
    before = threads_and_descriptors(server)

    def leave(client):
        dice = random.Random(seed + client)
        for _ in range(HANGUPS // CLIENTS):
            hang_up(server, dice)

    def stay(at):
        return [answer(server, body)["choices"] for body in kept[at::2]]

    *_, first, second = in_threads([*(lambda client=client: leave(client) for client in range(CLIENTS)),
                                    lambda: stay(0), lambda: stay(1)])
    assert [first, second] == [expected[0::2], expected[1::2]]
    wait_for(lambda: load(server) == (0, 0))
    wait_for(lambda: all(now <= then for now, then in zip(threads_and_descriptors(server), before)))
    values = metrics(server)
    assert values[("vllm:num_requests_running", "")] == values[("vllm:num_requests_waiting", "")] == 0
    assert values[("vllm:kv_cache_usage_perc", "")] == 0
    assert values[("vllm:request_success_total", 'finished_reason="abort"')] > 0
    assert [answer(server, body)["choices"] for body in kept] == expected
