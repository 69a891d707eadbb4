"""quern inspect: what it says of good checkpoints (bad ones: test_bad_inputs.py)."""

import json
import pathlib

import pytest

ORACLE = pathlib.Path("tests/data/oracle")
CHECKPOINTS = ["tiny-dense", "tiny-sparse", "tiny-grouped", "tiny-mtp", "tiny-sharded", "tiny-long",
               "tiny-sparse-mxfp4-ct", "tiny-sparse-mxfp4-fused", "tiny-sparse-mxfp4-quark"]


def inspect(run_quern, *arguments):
    done = run_quern("inspect", *arguments)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_json_and_table_agree(run_quern, name):
    told = json.loads(inspect(run_quern, ORACLE / name, "--json"))
    config = json.loads((ORACLE / name / "config.json").read_text(encoding="utf-8"))
    for field, value in told["config"].items():
        if field in config:
            assert value == config[field], field
    kinds = [kind for name, kind in told["kinds"].items() if name != "total"]
    total = told["kinds"]["total"]
    for field in ("tensors", "parameters", "bytes"):
        assert total[field] == sum(kind[field] for kind in kinds)
    assert total["tensors"] == len(told["tensors"])
    assert total["bytes"] == sum(tensor["bytes"] for tensor in told["tensors"])
    assert {tensor["file"] for tensor in told["tensors"]} == {
        file.name for file in (ORACLE / name).glob("model*.safetensors")}
    table = inspect(run_quern, ORACLE / name)
    assert f"{total['tensors']} tensors in {told['files']} file" in table
    latent, index = told["kv_bytes_per_token"]["latent"], told["kv_bytes_per_token"]["index"]
    assert f"latent {latent} and index keys {index} bytes" in table


def test_table_of_the_shipped_model(run_quern, tiny):
    table = inspect(run_quern, tiny)
    assert "dEEEEEE" in table and "III---I" in table
    assert "routed experts" in table and "4.35 M" in table


def test_shares_of_mxfp4(run_quern):
    table = inspect(run_quern, ORACLE / "tiny-sparse-mxfp4-ct")
    experts = next(line for line in table.splitlines() if "routed experts" in line)
    assert experts.endswith("MXFP4")
    assert "MXFP4 13.2 %, BF16 86.8 %, F32 <0.1 %" in table


def test_usage(run_quern):
    for arguments in ([], ["a", "b"], ["a", "--checksum"]):
        done = run_quern("inspect", *arguments)
        assert done.returncode == 2
        assert done.stdout == b""
    assert b"usage: quern inspect MODEL_DIR" in run_quern("inspect", "--help").stdout
