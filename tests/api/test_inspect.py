"""quern inspect: what it says of good checkpoints (bad ones: test_bad_inputs.py)."""

import json
import os
import pathlib
import shutil

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
    assert (told["runnable"], told["problem"], told["conversion"]) == (True, None, None)
    layers = told["layers"]
    assert [layer["mlp"] for layer in layers if not layer["mtp"]] == told["config"]["mlp_layer_types"]
    assert [layer["indexer"] for layer in layers if not layer["mtp"]] == told["config"]["indexer_types"]
    outside = sum(told["kinds"][kind]["bytes"] for kind in ("embedding", "head"))
    outside += next(tensor["bytes"] for tensor in told["tensors"] if tensor["name"] == "model.norm.weight")
    assert sum(layer["all"]["bytes"] for layer in layers) + outside == total["bytes"]
    share = told["mxfp4_share"]["bytes"]
    assert share == pytest.approx(total["bytes_by_dtype"].get("MXFP4", 0) / total["bytes"], abs=1e-6)
    assert [(file["state"], file["bytes"]) for file in told["file_list"]] == [
        ("whole", (ORACLE / name / file["name"]).stat().st_size) for file in told["file_list"]]
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


def look(run_quern, path, problem, locale="C.UTF-8"):
    """The picture and the object of what can't be run; both tell the problem."""
    text = run_quern("inspect", path, env={"LC_ALL": locale})
    assert text.returncode == 3
    assert problem in text.stderr.decode().splitlines()[-1]
    told = run_quern("inspect", path, "--json")
    assert (told.returncode, told.stderr) == (3, text.stderr)
    told = json.loads(told.stdout)
    assert not told["runnable"] and problem in told["problem"]
    return text.stdout.decode(), told


def copy(name, folder):
    for file in (ORACLE / name).iterdir():
        if file.name == "config.json" or file.name.startswith("model"):
            shutil.copyfile(file, folder / file.name)
    return folder


def test_download_that_goes_on(run_quern, tmp_path):
    folder = copy("tiny-sharded", tmp_path)
    (folder / "model-00003-of-00003.safetensors").unlink()
    second = folder / "model-00002-of-00003.safetensors"
    whole = second.stat().st_size
    with second.open("r+b") as file:
        file.truncate(whole - 1)
    picture, told = look(run_quern, folder, "is missing, though the index names it")
    assert "a checkpoint that is not all there" in picture
    assert "1 whole, 1 cut off, 1 missing" in picture
    assert "  missing      model-00003-of-00003.safetensors\n" in picture
    assert [file["state"] for file in told["file_list"]] == ["whole", "cut off", "missing"]
    assert (told["file_list"][1]["bytes"], told["file_list"][1]["whole_bytes"]) == (whole - 1, whole)
    assert any(layer["missing_tensors"] for layer in told["layers"])
    assert [tensor["whole"] for tensor in told["tensors"]].count(False) == 1


def test_format_that_quern_does_not_run(run_quern, tmp_path):
    folder = copy("tiny-dense", tmp_path)
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights.replace(b'"BF16"', b'"F8X!"'))
    config = json.loads((folder / "config.json").read_bytes())
    config["quantization_config"] = {"quant_method": "odd8"}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    picture, told = look(run_quern, folder, 'quant_method is "odd8"')
    assert "weights that quern does not run" in picture and "quantised    odd8" in picture and "F8X!" in picture
    assert told["quantization"] == "odd8"
    assert set(told["kinds"]["total"]["bytes_by_dtype"]) == {"F8X!", "F32"}


def test_unfinished_conversion(run_quern, tmp_path):
    folder = tmp_path / ".quern-convert"
    folder.mkdir()
    for name in ("model-00001-of-00007.safetensors.json", "model-00002-of-00007.safetensors.part"):
        (folder / name).write_bytes(b"")
    shutil.copyfile(ORACLE / "tiny-dense" / "model.safetensors", tmp_path / "model-00001-of-00007.safetensors")
    picture, told = look(run_quern, tmp_path, "is an unfinished conversion: go on with quern convert")
    assert "conversion   1 of 7 files of weights written, 1 begun" in picture
    assert told["conversion"] == {"written_files": 1, "begun_files": 1, "planned_files": 7}
    assert told["config"] is None and told["files"] == 1


def test_single_files(run_quern, tmp_path):
    picture, told = look(run_quern, ORACLE / "tiny-sharded" / "model-00002-of-00003.safetensors", "is one file of weights")
    assert "one file of weights, " in picture and told["files"] == 1
    picture, told = look(run_quern, ORACLE / "tiny-sharded" / "config.json", "see quern plan")
    assert "a config without weights" in picture and told["config"]["num_hidden_layers"] == 5
    (tmp_path / "config.json").write_bytes((ORACLE / "tiny-dense" / "config.json").read_bytes())
    picture, told = look(run_quern, tmp_path, "or see quern plan for a config alone")
    assert "a config without weights" in picture


def test_names_that_are_no_text(run_quern, tmp_path):
    folder = copy("tiny-dense", tmp_path)
    os.rename(folder / "model.safetensors", bytes(folder) + b"/\xff\n.safetensors")
    picture, told = look(run_quern, folder, "has neither model.safetensors")
    assert "one file" not in picture and told["file_list"][0]["name"] == "\\xff\\x0a.safetensors"


def test_ascii_where_the_locale_has_no_utf8(run_quern, tiny):
    def picture(**locale):
        return run_quern("inspect", tiny, env={"LC_ALL": "", "LC_CTYPE": "", "LANG": "", **locale}).stdout

    assert picture().isascii() and picture(LC_ALL="C", LANG="en_US.UTF-8").isascii()
    assert "\u2588".encode() in picture(LANG="en_US.UTF-8")
    lines = picture(LANG="C.UTF-8").decode().splitlines()[1:]  # the first has the path in it
    assert max(map(len, lines)) <= 80


# ---- checksums

@pytest.fixture(name="converted")
def converted_fixture(run_quern, tiny, tmp_path):
    assert run_quern("convert", tiny, tmp_path / "out").returncode == 0
    return tmp_path / "out"


def test_checksums_are_those_of_the_manifest(run_quern, converted):
    told = json.loads(inspect(run_quern, converted, "--checksum", "--json"))
    manifest = json.loads((converted / "quern-manifest.json").read_text(encoding="utf-8"))
    files = {file["name"]: file for file in manifest["files"]}
    assert told["manifest"] == "all headers and tensors are as it says"
    assert {tensor["name"]: tensor["checksum"] for tensor in told["tensors"]} == {
        name: value for file in files.values() for name, value in file.get("tensors", {}).items()}
    for file in told["file_list"]:
        assert file["header_checksum"] == files[file["name"]]["header"]
    table = inspect(run_quern, converted, "--checksum")
    for tensor in told["tensors"]:
        assert f"{tensor['checksum']}  {tensor['name']}" in table


def test_a_changed_byte_is_told_by_file_and_tensor(run_quern, converted):
    damaged = converted / "model-00003-of-00008.safetensors"
    data = bytearray(damaged.read_bytes())
    data[-5] ^= 1  # of codes or scales that still load
    damaged.write_bytes(data)
    done = run_quern("inspect", converted, "--checksum")
    assert done.returncode == 1
    assert b"1 mismatch with quern-manifest.json, the first in model-00003-of-00008.safetensors: tensor " in done.stderr
    assert b"manifest     not all are as it says" in done.stdout
    assert run_quern("inspect", converted).returncode == 0


def test_checksums_without_a_manifest(run_quern, tmp_path):
    told = json.loads(inspect(run_quern, ORACLE / "tiny-sharded", "--checksum", "--json"))
    assert told["manifest"] is None
    assert all(len(tensor["checksum"]) == 32 for tensor in told["tensors"])
    # of a download that goes on: what is there
    shutil.copytree(ORACLE / "tiny-sharded", tmp_path / "part")
    cut = tmp_path / "part" / "model-00002-of-00003.safetensors"
    cut.write_bytes(cut.read_bytes()[:-100])
    done = run_quern("inspect", tmp_path / "part", "--checksum", "--json")
    assert done.returncode == 3
    part = {tensor["name"]: tensor["checksum"] for tensor in json.loads(done.stdout)["tensors"]}
    whole = {tensor["name"]: tensor["checksum"] for tensor in told["tensors"]}
    assert None in part.values()
    assert all(value in (None, whole[name]) for name, value in part.items())
    bad = tmp_path / "part" / "quern-manifest.json"
    bad.write_text("{}", encoding="utf-8")
    assert run_quern("inspect", tmp_path / "part", "--checksum").returncode == 3


def test_usage(run_quern):
    for arguments in ([], ["a", "b"], ["a", "--hash"]):
        done = run_quern("inspect", *arguments)
        assert done.returncode == 2
        assert done.stdout == b""
    assert b"usage: quern inspect PATH" in run_quern("inspect", "--help").stdout
