"""quern eval: logits against the reference's goldens, and perplexity."""

import array
import json
import math
import struct

import pytest

from conftest import ROOT

ORACLE = ROOT / "tests" / "data" / "oracle"
TOLERANCE = 3e-5

CASES = [("tiny-dense", 7), ("tiny-mtp", 30), ("tiny-sparse", 33), ("tiny-sparse", 200), ("tiny-grouped", 40),
         ("tiny-sharded", 150), ("tiny-sparse-mxfp4-ct", 33)]

# What a dump does not hold: the reference's own BF16 run, frequencies, and the inner values of one layer.
NOT_DUMPED = ("logits_bf16", "rope_inv_freq", "trace.")


def read_safetensors(path):
    """name -> (dtype, shape, flat array) of the F32 and I32 tensors of a file."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] in ("F32", "I32"):
            begin, end = entry["data_offsets"]
            values = array.array("f" if entry["dtype"] == "F32" else "i", data[8 + length + begin:8 + length + end])
            tensors[name] = (entry["dtype"], entry["shape"], values)
    return tensors


def last_rows(tensor, rows):
    _, shape, values = tensor
    width = len(values) // shape[0]
    return values[(shape[0] - rows) * width:]


def dump(run_quern, tmp_path, model, ids, *flags, env=None):
    (tmp_path / "ids.json").write_text(json.dumps(ids))
    out = tmp_path / "out.safetensors"
    done = run_quern("eval", "logits", model, "--ids", tmp_path / "ids.json", "--out", out, *flags,
                     env={"QUERN_ISA": "scalar", **(env or {})})
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == b""
    return read_safetensors(out)


def golden_case(name, count):
    case = next(c for c in json.loads((ORACLE / name / "goldens.json").read_text())["cases"] if len(c["ids"]) == count)
    return case, read_safetensors(ORACLE / name / case["file"])


@pytest.mark.parametrize("name, count", CASES)
def test_logits_and_inner_values_equal_the_goldens(run_quern, tmp_path, name, count):
    case, golden = golden_case(name, count)
    has_mtp = "mtp_logits" in golden
    flags = ["--hidden"] + (["--mtp", "--chain", "3"] if has_mtp else [])
    got = dump(run_quern, tmp_path, ORACLE / name, case["ids"], *flags, "--max-num-batched-tokens", "19")
    wanted = {n for n in golden if not n.startswith(NOT_DUMPED)}
    assert set(got) == wanted
    for tensor in sorted(wanted):
        dtype, shape, values = golden[tensor]
        rows = shape[0]
        chain = tensor.startswith("mtp_chain")
        assert got[tensor][0] == dtype
        assert got[tensor][1] == [rows if chain else count, *shape[1:]], tensor
        mine = last_rows(got[tensor], rows)
        if dtype == "I32":
            assert mine == values, tensor
        elif "margin" not in tensor:
            worst = max(abs(a - b) for a, b in zip(mine, values))
            assert worst < TOLERANCE, f"{tensor}: {worst}"


def test_rows_do_not_depend_on_chunks_or_threads(run_quern, tmp_path):
    case, _ = golden_case("tiny-sparse", 200)
    first = dump(run_quern, tmp_path, ORACLE / "tiny-sparse", case["ids"], "--hidden", "--mtp", "--chain", "2",
                 "--threads", "1")
    second = dump(run_quern, tmp_path, ORACLE / "tiny-sparse", case["ids"], "--hidden", "--mtp", "--chain", "2",
                  "--threads", "3", "--max-num-batched-tokens", "7", "--block-size", "16")
    assert first == second


def test_logits_alone(run_quern, tmp_path):
    case, golden = golden_case("tiny-mtp", 5)
    got = dump(run_quern, tmp_path, ORACLE / "tiny-mtp", case["ids"])
    assert list(got) == ["logits"]
    assert got["logits"][1] == golden["logits"][1]


@pytest.mark.parametrize("ids, message", [("[]", b"not empty"), ("{}", b"array"), ("[1, -2]", b"element 1"),
                                          ("[1, 2.5]", b"element 1"), ("[600]", b"vocabulary"), ("[1", b"ids.json")])
def test_bad_ids_are_refused(run_quern, tmp_path, ids, message):
    (tmp_path / "ids.json").write_text(ids)
    out = tmp_path / "out.safetensors"
    done = run_quern("eval", "logits", ORACLE / "tiny-mtp", "--ids", tmp_path / "ids.json", "--out", out)
    assert done.returncode in (2, 3)
    assert message in done.stderr
    assert not out.exists()
    assert list(tmp_path.iterdir()) == [tmp_path / "ids.json"]


@pytest.mark.parametrize("flags, code, message", [
    ([], 2, b"--ids and --out"),
    (["--ids", "/nonexistent", "--out", "/tmp/x"], 3, b"/nonexistent"),
    (["--ids", "IDS", "--out", "/nonexistent/x"], 3, b"/nonexistent"),
    (["--ids", "IDS", "--out", "OUT", "--chain", "3"], 2, b"chain"),
])
def test_usage_errors(run_quern, tmp_path, flags, code, message):
    (tmp_path / "ids.json").write_text("[1, 2]")
    names = {"IDS": str(tmp_path / "ids.json"), "OUT": str(tmp_path / "out")}
    done = run_quern("eval", "logits", ORACLE / "tiny-mtp", *[names.get(f, f) for f in flags])
    assert (done.returncode, message in done.stderr) == (code, True), done.stderr.decode()


def test_mtp_without_an_mtp_layer(run_quern, tmp_path):
    (tmp_path / "ids.json").write_text("[1, 2]")
    done = run_quern("eval", "logits", ORACLE / "tiny-dense", "--ids", tmp_path / "ids.json", "--out",
                     tmp_path / "out", "--mtp")
    assert done.returncode == 2
    assert b"no MTP layer" in done.stderr


# ---- perplexity

TEXT = ("The secret code of Anna is 4711. The baker has a yellow bridge. On Friday the writer walks to the house. "
        "A silver dog runs across the station. The table in Delhi is brown and cold. ") * 6


def test_an_input_is_never_replaced(run_quern, tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    for name in ("config.json", "model.safetensors"):
        (model / name).write_bytes((ORACLE / "tiny-dense" / name).read_bytes())
    ids = tmp_path / "ids.json"
    ids.write_text("[1, 2]")
    weights = (model / "model.safetensors").read_bytes()
    for out in (ids, model / "model.safetensors"):
        done = run_quern("eval", "logits", model, "--ids", ids, "--out", out)
        assert done.returncode == 2 and b"--out" in done.stderr
    assert ids.read_text() == "[1, 2]" and (model / "model.safetensors").read_bytes() == weights


def perplexity(run_quern, model, *flags, stdin=TEXT.encode()):
    done = run_quern("eval", "ppl", model, "--json", *flags, stdin=stdin, env={"QUERN_ISA": "scalar"})
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def nll_of(logits, width, row, token):
    values = logits[row * width:(row + 1) * width]
    largest = max(values)
    return math.log(math.fsum(math.exp(v - largest) for v in values)) + largest - values[token]


def test_perplexity_equals_the_logits(run_quern, tiny, tmp_path):
    """One window: the mean of -log softmax of what eval logits writes."""
    result = perplexity(run_quern, tiny, "--context", "2048")
    ids = json.loads(run_quern("text", "encode", "--tokenizer", tiny, "--jsonl",
                               stdin=json.dumps(TEXT).encode()).stdout)
    _, (rows, width), logits = dump(run_quern, tmp_path, tiny, ids)["logits"]
    nlls = [nll_of(logits, width, row, ids[row + 1]) for row in range(rows - 1)]
    assert result["tokens"] == len(ids)
    assert result["scored"] == len(nlls)
    assert result["windows"] == 1
    assert result["mean_nll"] == pytest.approx(sum(nlls) / len(nlls), abs=1e-6)
    assert result["perplexity"] == pytest.approx(math.exp(result["mean_nll"]))


@pytest.mark.parametrize("context, stride", [(64, 32), (64, 63), (50, 7), (100, 1000 // 11)])
def test_every_token_is_scored_once(run_quern, tiny, context, stride):
    whole = perplexity(run_quern, tiny, "--context", "2048")
    result = perplexity(run_quern, tiny, "--context", context, "--stride", stride)
    assert result["scored"] == whole["tokens"] - 1
    assert result["windows"] == 1 + math.ceil((whole["tokens"] - context) / stride)
    assert result["perplexity"] > 1


def test_its_own_language_is_less_perplexing_than_noise(run_quern, tiny):
    own = perplexity(run_quern, tiny)
    noise = perplexity(run_quern, tiny, stdin=bytes(range(32, 127)) * 4)
    assert own["perplexity"] * 5 < noise["perplexity"]


def test_perplexity_reads_a_file_and_prints_a_line(run_quern, tiny, tmp_path):
    (tmp_path / "text").write_text(TEXT)
    done = run_quern("eval", "ppl", tiny, "--text", tmp_path / "text")
    assert done.returncode == 0
    assert done.stdout.startswith(b"perplexity ")


@pytest.mark.parametrize("flags, stdin, code, message", [
    ([], b"", 3, b"at least two"),
    ([], b"\xff\xfe", 2, b"UTF-8"),
    (["--stride", "4096", "--context", "100"], b"hello there, this is text", 2, b"stride"),
    (["--context", "1"], b"x", 2, b"context"),
    (["--context", "9000"], b"x", 2, b"--context: 9000 is out of range"),
    (["--text", "/nonexistent"], b"", 3, b"/nonexistent"),
])
def test_perplexity_refuses(run_quern, tiny, flags, stdin, code, message):
    done = run_quern("eval", "ppl", tiny, *flags, stdin=stdin)
    assert (done.returncode, message in done.stderr) == (code, True), done.stderr.decode()


def test_eval_tells_its_measurements(run_quern):
    done = run_quern("eval", "--help")
    assert done.returncode == 0
    assert b"logits" in done.stdout and b"ppl" in done.stdout
    done = run_quern("eval", "pll")
    assert done.returncode == 2
    assert b"did you mean 'ppl'" in done.stderr
    assert run_quern("eval").returncode == 2
