"""--load and --pack-dense: weights resident, packed or mapped, the same tokens each way, and answers while a load goes
on."""

import json
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
    for load, pack in (("resident", "on"), ("resident", "off"), ("mapped", "auto"), ("auto", "auto")):
        server = start_server("--load", load, "--pack-dense", pack, "--max-num-seqs", "3", "--max-model-len", "512")
        seen[load + pack] = choices(server)
        if load == "mapped":
            assert loaded(server) == (0, 0)
            assert "quern: load: weights mapped, as --load says" in server.stderr
        else:
            wait_for(lambda: "in memory after" in server.stderr_text())
            done, wanted = loaded(server)
            assert done == wanted > 0
            if pack == "on":
                wait_for(lambda: "quern: pack-dense: 60 matrices of " in server.stderr_text())
            # again, when every matrix has been taken over
            assert choices(server) == seen[load + pack]
        assert server.stop() is None
    assert all(answers == seen["mappedauto"] for answers in seen.values())


@pytest.mark.parametrize("isa", ["scalar", "avx2", "avx512bf16"])
@pytest.mark.parametrize("model", ["models/quern-tiny", "tests/data/oracle/tiny-mtp",
                                   "tests/data/oracle/tiny-sparse-mxfp4-ct"])
def test_packing_changes_no_bit(quern_bin, tmp_path, model, isa):
    ids = tmp_path / "ids.json"
    ids.write_text(json.dumps([(7 * n * n + n) % 500 for n in range(1, 80)]))
    seen = {}
    has_mtp = "sparse" not in model
    for pack in ("off", "on"):
        for threads, rows in (("1", "512"), ("4", "512"), ("2", "3")):
            out = tmp_path / f"{pack}-{threads}-{rows}"
            done = subprocess.run(
                [quern_bin, "eval", "logits", model, "--ids", ids, "--out", out, "--hidden", "--load", "resident",
                 "--pack-dense", pack, "--threads", threads, "--max-num-batched-tokens", rows,
                 *(("--mtp", "--chain", "3") if has_mtp else ())],
                capture_output=True, text=True, cwd=ROOT, env={**os.environ, "QUERN_ISA": isa})
            if done.returncode == 2 and "QUERN_ISA" in done.stderr:
                pytest.skip(f"this CPU does not have {isa}")
            assert done.returncode == 0, done.stderr
            assert ("quern: pack-dense: on, as --pack-dense says: " in done.stderr) == (pack == "on")
            assert (" matrices of " in done.stderr) == (pack == "on")
            seen[pack, threads, rows] = out.read_bytes()
    assert len(set(seen.values())) == 1


@pytest.mark.parametrize("drafts", [0, 3])
def test_packing_changes_no_token(run_quern, tiny, drafts):
    speculation = ("--speculative-config", json.dumps({"method": "mtp", "num_speculative_tokens": drafts}))
    seen = set()
    for pack in ("off", "on", "auto"):
        for threads in ("1", "4"):
            done = run_quern("run", tiny, "-p", "Say hello.", "--temperature", "1", "--seed", "3", "--max-tokens", "40",
                             "--threads", threads, "--pack-dense", pack, *(speculation if drafts else ()))
            assert done.returncode == 0
            seen.add(done.stdout)
    assert len(seen) == 1


@pytest.mark.parametrize("flags, code, told", [
    (("--load", "mapped", "--pack-dense", "on"), 2, "--pack-dense: on: mapped weights can't be packed: leave"),
    (("--load", "mapped",), 0, "pack-dense: off: weights are mapped\n"),
    (("--pack-dense", "off"), 0, "pack-dense: off, as --pack-dense says\n"),
    (("--pack-dense", "maybe"), 2, "--pack-dense"),
])
def test_what_is_packed_is_told(quern_bin, tiny, flags, code, told):
    done = run(quern_bin, tiny, *flags)
    assert done.returncode == code
    assert told in done.stderr


def test_auto_does_not_pack_where_that_is_slower(quern_bin, tiny):
    done = subprocess.run([quern_bin, "run", str(tiny), "-p", "Say hello.", "--max-tokens", "2"],
                          capture_output=True, text=True, cwd=ROOT, env={**os.environ, "QUERN_ISA": "scalar"})
    assert done.returncode == 0
    assert "pack-dense: off: the kernels of scalar are no faster with packed weights\n" in done.stderr


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
