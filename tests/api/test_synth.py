"""`quern synth`: what it writes loads and runs, the same options give the same bytes, and what cannot be is refused."""

import hashlib
import json
import os
import pathlib
import random
import signal
import struct
import subprocess

import pytest

from conftest import ROOT

GLM = "tests/data/glm-5.3/config.json"


def digest(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def inspect(run_quern, folder):
    done = run_quern("inspect", folder, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def read_floats(path, name):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        start = file.tell()
        begin, end = header[name]["data_offsets"]
        file.seek(start + begin)
        return header[name]["shape"], struct.unpack(f"<{(end - begin) // 4}f", file.read(end - begin))


def test_a_copy_of_the_shipped_models_shape_answers(run_quern, tiny, tmp_path):
    out = tmp_path / "out"
    done = run_quern("synth", tiny, out)
    assert done.returncode == 0, done.stderr
    assert b"4346608 random weights with seed 0" in done.stdout
    assert done.stderr == b""
    assert inspect(run_quern, out)["config"] == inspect(run_quern, tiny)["config"]
    answer = run_quern("run", out, "--raw", "-p", "Once", "--max-tokens", "24", "--temperature", "0", "--json")
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["usage"]["completion_tokens"] > 0


def test_logits_are_finite_and_differ(run_quern, tmp_path):
    """One dense and one sparse layer with real widths, cut in experts and tokens."""
    out, ids, logits = tmp_path / "out", tmp_path / "ids.json", tmp_path / "logits.safetensors"
    done = run_quern("synth", "tests/data/oracle/tiny-sharded/config.json", out, "--max-shard-size", "200k")
    assert done.returncode == 0, done.stderr
    assert b"has no tokenizer, since the source is a config alone" in done.stderr
    assert (out / "model.safetensors.index.json").is_file()
    rng = random.Random(1)
    tokens = inspect(run_quern, out)["config"]["vocab_size"]
    ids.write_text(json.dumps([rng.randrange(tokens) for _ in range(64)]))
    done = run_quern("eval", "logits", out, "--ids", ids, "--out", logits)
    assert done.returncode == 0, done.stderr
    (rows, columns), values = read_floats(logits, "logits")
    assert all(abs(value) < 100 for value in values)
    deviation = (sum(value * value for value in values) / len(values)) ** 0.5
    assert 1 < deviation < 4
    best = {max(range(columns), key=values[row * columns:(row + 1) * columns].__getitem__) for row in range(rows)}
    assert len(best) > rows / 4


def test_same_options_same_bytes(run_quern, tiny, tmp_path):
    made = {}
    for name, options in {"one": ["--threads", "1"], "three": ["--threads", "3"], "seed": ["--seed", "1"]}.items():
        assert run_quern("synth", tiny, tmp_path / name, *options).returncode == 0
        made[name] = digest(tmp_path / name)
    assert made["one"] == made["three"]
    assert made["one"] != made["seed"]
    assert made["one"]["config.json"] == made["seed"]["config.json"]


def test_a_cut_model_is_a_whole_model(run_quern, tiny, tmp_path):
    out = tmp_path / "out"
    done = run_quern("synth", tiny, out, "--layers", "1", "--sparse-from", "0", "--experts", "5", "--vocab", "1000",
                     "--no-mtp")
    assert done.returncode == 0, done.stderr
    assert b"has no tokenizer, since the vocabulary is cut" in done.stderr
    config = inspect(run_quern, out)["config"]
    assert (config["num_hidden_layers"], config["n_routed_experts"], config["vocab_size"]) == (1, 5, 1000)
    assert config["mlp_layer_types"] == ["sparse"]
    assert config["num_nextn_predict_layers"] == 0
    written = json.loads((out / "config.json").read_text())
    source = json.loads((pathlib.Path(tiny) / "config.json").read_text())
    assert list(written) == list(source)
    assert written["eos_token_id"] is None and written["rms_norm_eps"] == source["rms_norm_eps"]


def tensors_of(folder):
    """Name -> (dtype, shape, bytes) of a checkpoint in a single file or several."""
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        for name, entry in json.loads(data[8:8 + size]).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                tensors[name] = (entry["dtype"], entry["shape"], data[8 + size + begin:8 + size + end])
    return tensors


def test_mxfp4_is_what_convert_makes_of_bf16(run_quern, tiny, tmp_path):
    for name, options in {"plain": [], "mxfp4": ["--format", "mxfp4"]}.items():
        done = run_quern("synth", tiny, tmp_path / name, "--json", *options)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout.splitlines()[-1])["result"]["format"] == (options[1] if options else "bf16")
    done = run_quern("convert", tmp_path / "plain", tmp_path / "converted")
    assert done.returncode == 0, done.stderr
    assert tensors_of(tmp_path / "mxfp4") == tensors_of(tmp_path / "converted")
    converted, direct = (json.loads((tmp_path / name / "config.json").read_text()) for name in ("converted", "mxfp4"))
    assert converted == direct
    answer = run_quern("run", tmp_path / "mxfp4", "--raw", "-p", "Once", "--max-tokens", "8", "--temperature", "0")
    assert answer.returncode == 0, answer.stderr


def test_json_tells_the_result(run_quern, tiny, tmp_path):
    done = run_quern("synth", tiny, tmp_path / "out", "--json", "--seed", "7")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert all("progress" in line for line in lines[:-1])
    result = lines[-1]["result"]
    assert lines[-2]["progress"]["done"] == lines[-2]["progress"]["total"] == result["bytes"]
    assert result["weights"] == 4346608 and result["seed"] == 7 and result["format"] == "bf16"


def test_a_signal_leaves_nothing(quern_bin, tmp_path):
    """1.2 GB, if it were not stopped."""
    out = tmp_path / "out"
    process = subprocess.Popen([quern_bin, "synth", GLM, out, "--layers", "1", "--vocab", "4096", "--no-mtp", "--json"],
                               cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert b"progress" in process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert errors == b"quern: synth: stopped: what was written is removed\n"
    assert not out.exists()


@pytest.mark.parametrize(("arguments", "code", "reason"), [
    (["tests/data/none", "OUT"], 3, b"no such file"),
    (["tests/data/oracle/tiny-dense/generation_config.json", "OUT"], 3, b"model_type"),
    ([GLM, "OUT", "--layers", "79"], 2, b"--layers 79: the config has 78"),
    ([GLM, "OUT", "--layers", "0"], 2, b"--layers"),
    ([GLM, "OUT", "--experts", "257"], 2, b"--experts 257: the config has 256"),
    ([GLM, "OUT", "--vocab", "1000000"], 2, b"--vocab 1000000: the config has 154880"),
    ([GLM, "OUT", "--layers", "2", "--sparse-from", "3"], 2, b"--sparse-from 3: the config has 2"),
    ([GLM, "OUT", "--max-shard-size", "1"], 2, b"--max-shard-size 1: makes"),
    ([GLM, "OUT/below"], 2, b"cannot be made"),
    ([GLM, "models"], 2, b"is not empty"),
    ([GLM], 2, b"CONFIG_OR_DIR DST is missing"),
])
def test_refused(run_quern, tmp_path, arguments, code, reason):
    out = tmp_path / "out"
    done = run_quern("synth", *(argument.replace("OUT", str(out)) for argument in arguments))
    assert done.returncode == code, done.stderr
    assert reason in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert done.stdout == b""
    assert not out.exists()


def test_too_little_disk(run_quern):
    disk = os.statvfs("/dev/shm")
    if disk.f_bavail * disk.f_frsize > 1.5e12:
        pytest.skip("/dev/shm has room for a whole GLM-5.3")
    done = run_quern("synth", GLM, "/dev/shm/quern-synth-test")
    assert done.returncode == 4
    assert b"bytes free and this takes 1506" in done.stderr
    assert not pathlib.Path("/dev/shm/quern-synth-test").exists()
