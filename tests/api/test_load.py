"""--load: weights resident in memory or mapped, the same tokens either way, and answers while a load goes on."""

import os
import subprocess

import pytest

from chat_client import answer, chat
from conftest import ROOT
from crowd import in_threads, metric, wait_for

PROMPTS = [chat(f"Count from {n} to {n + 9}, then say why.", max_tokens=24, temperature=n % 2, seed=n) for n in range(6)]


def run(quern_bin, model, *flags):
    return subprocess.run([quern_bin, "run", str(model), "-p", "Say hello.", "--temperature", "0", "--max-tokens", "12",
                           *flags], capture_output=True, text=True, cwd=ROOT)


def loaded(server):
    return metric(server, "quern:weights_loaded_bytes"), metric(server, "quern:weights_to_load_bytes")


def choices(server):
    # requests from the first moment on, while what is resident may still be on its way
    return in_threads([lambda body=body: answer(server, body)["choices"] for body in PROMPTS])


def test_answers_do_not_tell_where_the_weights_are(start_server):
    seen = {}
    for load in ("resident", "mapped", "auto"):
        server = start_server("--load", load, "--max-num-seqs", "3", "--max-model-len", "512")
        seen[load] = choices(server)
        if load == "mapped":
            assert loaded(server) == (0, 0)
            assert "quern: load: weights mapped, as --load says" in server.stderr
        else:
            wait_for(lambda: "in memory after" in server.stderr_text())
            done, wanted = loaded(server)
            assert done == wanted > 0
        assert server.stop() is None
    assert seen["resident"] == seen["mapped"] == seen["auto"]


def test_resident_weights_outlive_their_file(start_server, tiny, tmp_path):
    for file in tiny.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    server = start_server("--load", "resident", "--max-model-len", "512",
                          "--served-model-name", "quern-tiny", model=tmp_path)
    wait_for(lambda: "in memory after" in server.stderr_text())
    before = answer(server, PROMPTS[0])["choices"]  # a step takes over what was read
    os.truncate(tmp_path / "model.safetensors", 60000)
    assert answer(server, PROMPTS[0])["choices"] == before


def test_a_server_can_be_stopped_while_it_loads(start_server):
    server = start_server("--load", "resident", "--max-model-len", "512")
    assert server.stop() is None


@pytest.mark.parametrize("load", ["resident", "mapped"])
def test_run_tells_where_the_weights_are(quern_bin, tiny, load):
    done = run(quern_bin, tiny, "--load", load)
    assert done.returncode == 0
    assert f"quern: load: weights {load}, as --load says\n" in done.stderr
    assert ("of weights in memory after" in done.stderr) == (load == "resident")
    assert done.stdout == run(quern_bin, tiny).stdout


def test_another_place_is_refused(quern_bin, tiny):
    done = run(quern_bin, tiny, "--load", "vram")
    assert done.returncode == 2
    assert "--load: vram: give auto, resident or mapped" in done.stderr
