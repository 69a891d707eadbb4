"""quern convert: what it writes, how work is split and resumed, what it refuses (deaths: test_convert_crash.py)."""

import array
import fcntl
import json
import math
import pathlib
import shutil
import signal
import struct
import subprocess

import pytest

from safetensors_files import read_checkpoint, read_safetensors, write_safetensors, write_sharded

ORACLE = pathlib.Path(__file__).resolve().parent.parent / "data" / "oracle"
SOURCES = ["tiny-dense", "tiny-sparse", "tiny-grouped", "tiny-mtp", "tiny-sharded", "tiny-long"]
STATE = ".quern-convert"


@pytest.fixture(name="convert")
def convert_fixture(run_quern):
    """convert(*arguments) runs it; with code=N it must end so, and gives what it said on stderr."""

    def run(*arguments, code=0, env=None):
        done = run_quern("convert", *arguments, env=env)
        assert done.returncode == code, done.stderr.decode()
        return done.stderr.decode() if code else done.stdout.decode()

    return run


def files_of(folder):
    """Every file below the folder and its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def weights_of(folder):
    return {name: data for name, data in files_of(folder).items() if name.endswith(".safetensors")}


def copy_source(name, folder):
    """A checkpoint of the oracle without its goldens, to be changed."""
    folder.mkdir()
    for path in (ORACLE / name).iterdir():
        if not path.name.startswith("golden"):
            shutil.copy(path, folder)
    return folder


def is_expert(name):
    return ".mlp.experts." in name


def values_of(dtype, data):
    if dtype == "BF16":
        words = array.array("I", (bits << 16 for bits in array.array("H", data)))
        return array.array("f", words.tobytes())
    return array.array("f", data)


# --- what is written ---


def nearest_code(magnitude):
    """E2M1 code 0..7 of a magnitude in units of the scale: to nearest, ties to the even code, saturating."""
    grid = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    best = 0
    for code in range(1, 8):
        closer, tie = abs(grid[code] - magnitude), abs(grid[best] - magnitude)
        if closer < tie or (closer == tie and code % 2 == 0):
            best = code
    return best


def encode_ocp(values):
    """The codes and the scale byte of a block of 32 by the OCP MX rule: scale 2^(floor(log2(largest)) - 2)."""
    largest = max(abs(value) for value in values)
    if largest == 0:
        scale = 0
    else:
        scale = min(max(math.frexp(largest)[1] - 1 - 2 + 127, 0), 254)
    codes = []
    for value in values:
        code = nearest_code(math.ldexp(abs(value), 127 - scale))
        codes.append(code | (8 if math.copysign(1, value) < 0 else 0))
    return bytes(codes[i] | codes[i + 1] << 4 for i in range(0, 32, 2)), scale


@pytest.mark.parametrize("name", SOURCES)
def test_the_rest_is_untouched_and_experts_are_mxfp4(convert, run_quern, tmp_path, name):
    convert(ORACLE / name, tmp_path / "out")
    before, after = read_checkpoint(ORACLE / name), read_checkpoint(tmp_path / "out")
    for tensor, content in before.items():
        if not is_expert(tensor):
            assert after.pop(tensor) == content
            continue
        rows, cols = content[1]
        assert after.pop(tensor + "_packed")[:2] == ("U8", [rows, cols // 2])
        assert after.pop(tensor + "_scale")[:2] == ("U8", [rows, cols // 32])
    assert not after
    done = run_quern("inspect", tmp_path / "out", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kinds"]["routed experts"]["bytes_by_dtype"].keys() <= {"MXFP4"}
    assert not (tmp_path / "out" / STATE).exists()


def test_rtn_equals_an_encoder_written_from_the_standard(convert, tmp_path):
    convert(ORACLE / "tiny-sparse", tmp_path / "out", "--rtn")
    before, after = read_checkpoint(ORACLE / "tiny-sparse"), read_checkpoint(tmp_path / "out")
    experts = [tensor for tensor in before if is_expert(tensor)]
    for tensor in experts[::7]:
        values = values_of(before[tensor][0], before[tensor][2])
        codes, scales = bytearray(), bytearray()
        for at in range(0, len(values), 32):
            block, scale = encode_ocp(values[at:at + 32])
            codes += block
            scales.append(scale)
        assert after[tensor + "_packed"][2] == codes, tensor
        assert after[tensor + "_scale"][2] == scales, tensor


def error_of(before, after):
    """The squared error of all experts of a converted checkpoint."""
    grid = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    grid += [-value for value in grid]
    total = 0.0
    for tensor, (dtype, _, data) in before.items():
        if not is_expert(tensor):
            continue
        values, codes, scales = values_of(dtype, data), after[tensor + "_packed"][2], after[tensor + "_scale"][2]
        for block, scale in enumerate(scales):
            factor = math.ldexp(1, scale - 127)
            for i in range(16):
                byte = codes[16 * block + i]
                at = 32 * block + 2 * i
                total += (values[at] - grid[byte & 15] * factor) ** 2 + (values[at + 1] - grid[byte >> 4] * factor) ** 2
    return total


def test_the_default_rule_has_the_smaller_error(convert, tmp_path):
    before = read_checkpoint(ORACLE / "tiny-mtp")
    convert(ORACLE / "tiny-mtp", tmp_path / "default")
    convert(ORACLE / "tiny-mtp", tmp_path / "rtn", "--rtn")
    default, rtn = (error_of(before, read_checkpoint(tmp_path / name)) for name in ("default", "rtn"))
    assert default < 0.96 * rtn


def test_fused_experts_give_the_same_weights(convert, tmp_path):
    source = copy_source("tiny-mtp", tmp_path / "fused")
    tensors, fused = read_checkpoint(source), {}
    (source / "model.safetensors").unlink()
    for tensor, content in tensors.items():
        if not is_expert(tensor):
            fused[tensor] = content
            continue
        prefix, rest = tensor.split(".experts.")
        expert, projection, _ = rest.split(".")
        down = projection == "down_proj"
        part = fused.setdefault(f"{prefix}.experts.{'down_proj' if down else 'gate_up_proj'}", {})
        part[int(expert), projection] = content
    for name, part in fused.items():
        if isinstance(part, dict):
            dtype, (rows, cols), _ = next(iter(part.values()))
            experts = 1 + max(expert for expert, _ in part)
            rows *= len(part) // experts
            fused[name] = (dtype, [experts, rows, cols], b"".join(part[key][2] for key in sorted(part)))
    write_sharded(source, fused, 3)
    convert(source, tmp_path / "a")
    convert(ORACLE / "tiny-mtp", tmp_path / "b")
    assert weights_of(tmp_path / "a") == weights_of(tmp_path / "b")


@pytest.mark.parametrize("dtype", ["F32", "F16"])
def test_other_dtypes_of_the_source(convert, run_quern, tmp_path, dtype):
    source = copy_source("tiny-mtp", tmp_path / "source")
    tensors = read_checkpoint(source)
    for name, (old, shape, data) in tensors.items():
        values = values_of(old, data)
        if dtype == "F32" or old == "F32":
            tensors[name] = ("F32", shape, values.tobytes())
        else:
            tensors[name] = ("F16", shape, struct.pack(f"<{len(values)}e", *values))
    write_safetensors(source / "model.safetensors", tensors)
    convert(source, tmp_path / "out")
    after = read_checkpoint(tmp_path / "out")
    assert all(after[name] == content for name, content in tensors.items() if not is_expert(name))
    if dtype == "F32":
        convert(ORACLE / "tiny-mtp", tmp_path / "bf16")
        expected = read_checkpoint(tmp_path / "bf16")
        assert all(after[name] == expected[name] for name in expected if is_expert(name))
    assert run_quern("inspect", tmp_path / "out").returncode == 0


# --- how work is split ---


def test_threads_and_isa_have_no_influence(convert, tmp_path):
    convert(ORACLE / "tiny-sparse", tmp_path / "a", "--threads", 1)
    convert(ORACLE / "tiny-sparse", tmp_path / "b", "--threads", 7)
    convert(ORACLE / "tiny-sparse", tmp_path / "c", env={"QUERN_ISA": "scalar"})
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b") == files_of(tmp_path / "c")


@pytest.mark.parametrize("size", ["6g", "65536", "200k"])
def test_a_split_run_writes_the_same(convert, tiny, tmp_path, size):
    arguments = (tiny, tmp_path / "split", "--max-shard-size", size)
    convert(*arguments, "--layers", "5-7")
    said = convert(*arguments, "--finalize", code=1)
    assert "layers 1 to 4 and the rest" in said
    convert(*arguments, "--layers", "2", "--rest")
    assert "layers 1, 3 to 4)" in convert(*arguments, "--finalize", code=1)
    assert not (tmp_path / "split" / "config.json").exists()
    convert(*arguments, "--layers", "0-4")
    convert(*arguments, "--finalize")
    convert(tiny, tmp_path / "whole", "--max-shard-size", size)
    assert files_of(tmp_path / "split") == files_of(tmp_path / "whole")
    limit = {"6g": 6e9, "65536": 65536, "200k": 200000}[size]
    for name, data in weights_of(tmp_path / "whole").items():
        tensors = read_safetensors(tmp_path / "whole" / name)
        assert sum(len(content[2]) for content in tensors.values()) <= limit or len(tensors) == 1
        assert len(data) % 4096 == sum(len(content[2]) for content in tensors.values()) % 4096


def test_a_whole_run_takes_up_what_parts_left(convert, tiny, tmp_path):
    convert(tiny, tmp_path / "a", "--layers", "3-4")
    told = [json.loads(line) for line in convert(tiny, tmp_path / "a", "--json").splitlines()]
    convert(tiny, tmp_path / "b")
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")
    result = told[-1]["result"]
    assert result["complete"] and not result["already_complete"]
    assert result["files_done"] == result["files_total"] == 8
    # two of the seven layers' experts were there already
    expected = sum(len(data) for name, (_, _, data) in read_checkpoint(tiny).items()
                   if not (".layers.3.mlp.experts." in name or ".layers.4.mlp.experts." in name))
    assert result["source_bytes"] == expected
    assert all("progress" in line for line in told[:-1])


def test_a_finished_folder_is_left_as_it_is(convert, tiny, tmp_path):
    convert(tiny, tmp_path / "out")
    before = files_of(tmp_path / "out")
    assert "already complete" in convert(tiny, tmp_path / "out")
    assert "already complete" in convert(tiny, tmp_path / "out", "--finalize")
    assert "rule least-error, and this run has rtn" in convert(tiny, tmp_path / "out", "--rtn", code=2)
    assert files_of(tmp_path / "out") == before


def test_runs_with_other_settings_are_refused(convert, tiny, tmp_path):
    convert(tiny, tmp_path / "out", "--layers", "1")
    assert "rule least-error, and this run has rtn" in convert(tiny, tmp_path / "out", "--rest", "--rtn", code=2)
    said = convert(tiny, tmp_path / "out", "--rest", "--max-shard-size", "1g", code=2)
    assert "max-shard-size 6000000000, and this run has 1000000000" in said
    assert "source-config" in convert(ORACLE / "tiny-mtp", tmp_path / "out", code=2)


def test_a_file_that_another_run_writes_is_left_to_it(convert, tiny, tmp_path):
    convert(tiny, tmp_path / "out", "--layers", "1")
    busy = tmp_path / "out" / STATE / "model-00004-of-00008.safetensors.lock"
    with open(busy, "w", encoding="utf-8") as lock:
        lock.write("pid 4711 on elsewhere\n")
        lock.flush()
        fcntl.lockf(lock, fcntl.LOCK_EX)
        said = convert(tiny, tmp_path / "out", code=1)
        assert "1 file is being written by pid 4711 on elsewhere: run the same command again" in said
        assert len(weights_of(tmp_path / "out")) == 7
        assert "1 of 8 files are not done (layers 3)" in convert(tiny, tmp_path / "out", "--finalize", code=1)
    convert(tiny, tmp_path / "out")
    convert(tiny, tmp_path / "whole")
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")


def test_a_signal_stops_a_run_that_waits(quern_bin, convert, tiny, tmp_path):
    convert(tiny, tmp_path / "out", "--layers", "1")
    with open(tmp_path / "out" / STATE / "session.lock", "w", encoding="utf-8") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        with subprocess.Popen([quern_bin, "convert", tiny, tmp_path / "out"], stderr=subprocess.PIPE) as run:
            while not caught(run.pid) & 1 << signal.SIGINT - 1:
                assert run.poll() is None
            run.send_signal(signal.SIGINT)
            said = run.stderr.read().decode()
        assert (run.returncode, "stopped" in said) == (1, True)
    convert(tiny, tmp_path / "out")


def caught(pid):
    """The signals that a process has handlers for, as bits."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("SigCgt:"):
            return int(line.split()[1], 16)
    return 0


# --- what is resumed ---


@pytest.fixture(name="broken")
def broken_fixture(convert, tmp_path):
    """A conversion that stopped at a damaged shard of the source; source, output, the shard, and what it should be."""
    source = tmp_path / "source"
    source.mkdir()
    for name in ("config.json", "generation_config.json"):
        shutil.copy(ORACLE / "tiny-mtp" / name, source)
    write_sharded(source, read_checkpoint(ORACLE / "tiny-mtp"), 6)
    shard = source / "model-00005-of-00006.safetensors"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-2] + b"\xff\xff")
    said = convert(source, tmp_path / "out", "--threads", 1, code=3)
    assert str(shard) in said and "NaN" in said
    return source, tmp_path / "out", shard, whole


def test_goes_on_when_the_source_is_whole(convert, broken, tmp_path):
    source, out, shard, whole = broken
    shard.write_bytes(whole)
    convert(source, out)
    convert(source, tmp_path / "undisturbed")
    assert files_of(out) == files_of(tmp_path / "undisturbed")


def test_a_truncated_source_file_is_named(convert, broken):
    source, out, shard, whole = broken
    shard.write_bytes(whole[:-1000])
    said = convert(source, out, code=3)
    assert str(shard) in said and "truncated" in said
    shard.write_bytes(whole)
    convert(source, out)


def test_a_missing_source_file_is_told_before_any_work(convert, broken, tmp_path):
    source, _, shard, whole = broken
    shard.unlink()
    said = convert(source, tmp_path / "other", code=3)
    assert str(shard) in said and "missing" in said
    assert not weights_of(tmp_path / "other")
    shard.write_bytes(whole)
    convert(source, tmp_path / "other")


def test_damaged_parts_are_made_anew(convert, broken, tmp_path):
    source, out, shard, whole = broken
    shard.write_bytes(whole)
    parts, journals = list((out / STATE).glob("*.part")), list((out / STATE).glob("*.journal"))
    assert parts and journals
    for part in parts:
        data = bytearray(part.read_bytes())
        for at in range(5000, len(data), 997):
            data[at] ^= 1
        part.write_bytes(data)
    for journal in journals:
        journal.write_bytes(journal.read_bytes()[:-7])
    convert(source, out)
    convert(source, tmp_path / "undisturbed")
    assert files_of(out) == files_of(tmp_path / "undisturbed")


def test_a_changed_finished_file_is_refused(convert, tiny, tmp_path):
    convert(tiny, tmp_path / "out", "--layers", "1-3")
    file = sorted((tmp_path / "out").glob("*.safetensors"))[0]
    file.write_bytes(file.read_bytes()[:-1])
    said = convert(tiny, tmp_path / "out", code=3)
    assert file.name in said and "remove the file" in said
    file.unlink()
    convert(tiny, tmp_path / "out")
    convert(tiny, tmp_path / "whole")
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")


# --- what is refused ---


def test_output_in_or_around_the_input(convert, tmp_path):
    source = copy_source("tiny-mtp", tmp_path / "source")
    (tmp_path / "link").symlink_to(source)
    for out in (source, source / "out", tmp_path, tmp_path / "link" / "out", source / ".." / "source" / "x"):
        assert "source's folder" in convert(source, out, code=2)
    assert not (source / "out").exists()
    convert(source, tmp_path / "source-mxfp4")


def test_folders_with_something_else_in_them(convert, tiny, tmp_path):
    out = copy_source("tiny-mtp", tmp_path / "out")
    assert "no conversion wrote it" in convert(tiny, out, code=2)
    (out / "config.json").unlink()
    assert "is no file of this conversion" in convert(tiny, out, code=2)
    assert "is not a folder" in convert(tiny, out / "model.safetensors", code=2)
    assert "does not exist" in convert(tiny, tmp_path / "no" / "such", code=2)


def test_quantised_and_other_sources(convert, tmp_path):
    assert "quantised already" in convert(ORACLE / "tiny-sparse-mxfp4-ct", tmp_path / "out", code=3)
    assert "quantised already" in convert(ORACLE / "tiny-sparse-mxfp4-quark", tmp_path / "out", code=3)
    source = copy_source("tiny-mtp", tmp_path / "source")
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    (source / "config.json").write_text(
        json.dumps({**config, "quantization_config": {"quant_method": "fp8"}}), encoding="utf-8")
    said = convert(source, tmp_path / "out", code=3)
    assert "lossy" in said and "larger error" in said and "--allow-lossy-source" in said
    (source / "config.json").write_text(
        json.dumps({**config, "model_type": "llama", "architectures": ["LlamaForCausalLM"]}), encoding="utf-8")
    assert "model_type" in convert(source, tmp_path / "out", code=3)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("tensor, bits, place", [
    ("model.layers.2.mlp.experts.1.down_proj.weight", 0x7fc0, "row 3, column 5"),
    ("model.layers.2.mlp.experts.1.up_proj.weight", 0xff80, "row 3, column 5"),
    ("model.layers.1.self_attn.kv_b_proj.weight", 0x7f80, "row 3, column 5"),
    ("model.norm.weight", 0xffff, "index 5"),
])
def test_values_that_are_not_finite_are_named(convert, tmp_path, tensor, bits, place):
    source = copy_source("tiny-mtp", tmp_path / "source")
    tensors = read_checkpoint(source)
    dtype, shape, data = tensors[tensor]
    at = 2 * (3 * shape[1] + 5 if len(shape) == 2 else 5)
    tensors[tensor] = (dtype, shape, data[:at] + struct.pack("<H", bits) + data[at + 2:])
    write_safetensors(source / "model.safetensors", tensors)
    said = convert(source, tmp_path / "out", code=3)
    assert f"tensor {tensor}: its value at {place} is NaN or infinite" in said
    assert not (tmp_path / "out" / "config.json").exists()


def test_experts_that_were_never_written(convert, tmp_path):
    source = copy_source("tiny-mtp", tmp_path / "source")
    tensors = read_checkpoint(source)
    name = "model.layers.2.mlp.experts.1.down_proj.weight"
    tensors[name] = (*tensors[name][:2], bytes(len(tensors[name][2])))
    write_safetensors(source / "model.safetensors", tensors)
    assert f"tensor {name}: is all zero" in convert(source, tmp_path / "out", code=3)


def test_every_tensor_is_accounted_for(convert, tmp_path):
    source = copy_source("tiny-mtp", tmp_path / "source")
    tensors = read_checkpoint(source)
    for sharded in (False, True):
        out = tmp_path / f"out-{sharded}"
        for missing in ("model.norm.weight", "model.layers.2.mlp.experts.3.up_proj.weight"):
            part = {name: content for name, content in tensors.items() if name != missing}
            write(source, part, sharded)
            assert f"tensor {missing}: is in no file" in convert(source, out, code=3)
        write(source, {**tensors, "model.layers.1.unheard_of.weight": ("BF16", [1], b"\0\0")}, sharded)
        said = convert(source, out, code=3)
        assert "tensor model.layers.1.unheard_of.weight: has no place" in said
        dtype, _, data = tensors["model.norm.weight"]
        write(source, {**tensors, "model.norm.weight": (dtype, [1, len(data) // 2], data)}, sharded)
        assert "tensor model.norm.weight: is BF16 [1, " in convert(source, out, code=3)


def write(source, tensors, sharded):
    for path in source.glob("model*"):
        path.unlink()
    if sharded:
        write_sharded(source, tensors, 3)
    else:
        write_safetensors(source / "model.safetensors", tensors)


def test_usage(convert, run_quern, tiny, tmp_path):
    out = tmp_path / "out"
    for flags in (["--layers", "x"], ["--layers", "3-"], ["--layers", "-3"], ["--layers", "1-2-3"], ["--layers", "4-3"],
                  ["--layers", "0"], ["--layers", "8-9"], ["--finalize", "--rest"], ["--finalize", "--layers", "1"],
                  ["--threads", "0"], ["--max-shard-size", "1k"], ["--rtn", "--importance", "x"]):
        convert(tiny, out, *flags, code=2)
    assert "--layers: no layer of 0 to 0 has routed experts" in convert(tiny, out, "--layers", "0", code=2)
    convert(tiny, code=2)
    assert not out.exists()
    assert b"usage: quern convert SRC DST" in run_quern("convert", "--help").stdout


# ---- a state folder that somebody else has been in

@pytest.fixture(name="begun")
def begun_fixture(run_quern, tmp_path):
    """A conversion of which one layer is done, and the name of a file that is not."""
    source = pathlib.Path("tests/data/oracle/tiny-mtp")
    assert run_quern("convert", source, tmp_path / "out", "--layers", "1-1").returncode == 0
    done = {path.name for path in (tmp_path / "out").glob("model-*.safetensors")}
    total = int(next(iter(done))[-len("00004.safetensors"):-len(".safetensors")])
    left = next(name for i in range(1, total + 1)
                if (name := f"model-{i:05}-of-{total:05}.safetensors") not in done)
    return source, tmp_path / "out", left


@pytest.mark.parametrize("name", ["{}.part", "{}.journal", "{}.lock", "session.lock", "settings.lock"])
def test_links_in_the_state_folder_are_not_written_through(run_quern, begun, tmp_path, name):
    source, out, left = begun
    precious = tmp_path / "precious"
    precious.write_bytes(b"precious")
    link = out / ".quern-convert" / name.format(left)
    link.unlink(missing_ok=True)
    link.symlink_to(precious)
    done = run_quern("convert", source, out)
    assert done.returncode == 3 and str(link).encode() in done.stderr
    assert precious.read_bytes() == b"precious" and not (out / "config.json").exists()


def test_a_linked_state_folder_is_refused(run_quern, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".quern-convert").symlink_to(tmp_path / "elsewhere")
    done = run_quern("convert", "tests/data/oracle/tiny-mtp", tmp_path / "out")
    assert done.returncode == 2 and b"symbolic link" in done.stderr
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_files_whose_settings_are_gone_are_not_gone_on_with(run_quern, begun):
    source, out, _ = begun
    (out / ".quern-convert" / "settings.json").unlink()
    done = run_quern("convert", source, out, "--rtn")
    assert done.returncode == 3 and b"the settings they were made with are gone" in done.stderr
