"""quern plan: the known figures of GLM-5.3, what fits where, and predictions from saved figures."""

import json
import pathlib

import pytest

GLM = pathlib.Path("tests/data/glm-5.3/config.json")


def plan(run_quern, *arguments):
    done = run_quern("plan", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


@pytest.fixture(scope="module")
def figures(run_quern, tmp_path_factory):
    """A file of figures, measured in little time."""
    path = tmp_path_factory.mktemp("hw") / "hw.json"
    done = run_quern("bench", "hw", "--seconds", "0.1", "--json", "--out", path)
    assert done.returncode == 0, done.stderr
    return path


def test_glm_5_3_is_what_it_is_known_to_be(run_quern):
    told = json.loads(plan(run_quern, GLM, "--no-measure", "--json"))
    sizes = told["sizes"]
    assert (sizes["weights"], sizes["router_biases"]) == (753_329_921_024, 19_456)
    assert sizes["total"]["parameters"] == sizes["weights"] + sizes["router_biases"]
    assert round(sizes["total"]["bytes_mxfp4"] / 2**30) == 399
    assert sizes["total"]["bytes_bf16"] == 2 * sizes["weights"] + 4 * sizes["router_biases"]
    for field in ("tensors", "parameters", "bytes_bf16", "bytes_mxfp4"):
        assert sizes["total"][field] == sum(kind[field] for kind in sizes["kinds"].values())
    assert told["kv"]["values_per_token"] == 576 * 78 + 128 * 21
    assert told["kv"]["values_per_token_with_mtp"] == 576 * 79 + 128 * 22
    assert told["conversion_bytes"] == sizes["total"]["bytes_bf16"] + sizes["total"]["bytes_mxfp4"]
    assert told["mxfp4"]["speed"] is None


def test_a_folder_and_its_config_are_the_same_plan(run_quern):
    a, b = (json.loads(plan(run_quern, path, "--no-measure", "--json", "--memory", "600G"))
            for path in (GLM, GLM.parent))
    assert a["sizes"] == b["sizes"] and a["mxfp4"] == b["mxfp4"]


def test_sizes_are_those_that_inspect_counts(run_quern, tiny):
    told = json.loads(plan(run_quern, tiny, "--no-measure", "--json"))
    seen = json.loads(run_quern("inspect", tiny, "--json").stdout)
    assert told["sizes"]["total"]["parameters"] == seen["kinds"]["total"]["parameters"]
    assert told["bf16"]["fits"] and told["bf16"]["smallest_ranks"] == 1


def test_memory_decides_what_fits(run_quern):
    def fits(memory):
        told = json.loads(plan(run_quern, GLM, "--no-measure", "--json", "--memory", memory))
        return told["mxfp4"]["smallest_ranks"], told["bf16"]["smallest_ranks"], told["mxfp4"]["kv_tokens"]

    assert fits("512G")[:2] == (1, 4)
    assert fits("2T")[:2] == (1, 1)
    assert fits("4G") == (None, None, 0)
    assert fits("600G")[2] > fits("512G")[2] > 131072


def test_layouts(run_quern):
    told = json.loads(plan(run_quern, GLM, "--no-measure", "--json", "--memory", "96G", "--ranks", "8"))
    layouts = {(layout["expert_groups"], layout["expert_parts"]): layout for layout in told["mxfp4"]["layouts"]}
    assert set(layouts) == {(8, 1), (4, 2), (2, 4), (1, 8)}
    recipe = layouts[4, 2]
    assert recipe["fits"]
    whole = told["sizes"]["total"]["bytes_mxfp4"]
    assert 8 * (recipe["bytes_per_rank"] - recipe["replicated_bytes"]) + recipe["replicated_bytes"] == whole


def test_predictions_from_saved_figures(run_quern, figures):
    told = json.loads(plan(run_quern, GLM, "--hw", figures, "--json", "--acceptance", "0.5"))
    for form in ("bf16", "mxfp4"):
        speed = told[form]["speed"]
        times = [entry["seconds"] for entry in speed["decode"]]
        assert [entry["context"] for entry in speed["decode"]] == [0, 4096, 32768, 131072]
        assert times == sorted(times)
        for entry in speed["decode"]:
            assert sum(entry["parts"].values()) == pytest.approx(entry["seconds"], rel=1e-4)
            assert entry["tokens_per_second"] * entry["seconds"] == pytest.approx(1, rel=1e-4)
        assert speed["mtp"]["tokens_per_second"] * speed["mtp"]["seconds"] == pytest.approx(1.5, rel=1e-4)
        assert [entry["tokens"] for entry in speed["prefill"]] == [512, 2048, 8192]
        assert speed["disk_bound_tokens_per_second"] is None
    text = plan(run_quern, GLM, "--hw", figures)
    assert "753329921024 weights, 19456 router biases" in text
    assert "prompt of 8192 tokens" in text


def test_short_requests_need_no_long_contexts(run_quern, figures):
    told = json.loads(plan(run_quern, GLM, "--hw", figures, "--json", "--max-model-len", "8K"))
    assert [entry["context"] for entry in told["mxfp4"]["speed"]["decode"]] == [0, 4096]


def test_bad_figures(run_quern, figures, tmp_path):
    good = json.loads(figures.read_text(encoding="utf-8"))
    bad = tmp_path / "bad.json"
    for change, words in (({"form": "x"}, "form"), ({"threads": 0}, "threads"), ({"figures": {}}, "is missing")):
        bad.write_text(json.dumps({**good, **change}), encoding="utf-8")
        done = run_quern("plan", GLM, "--hw", bad)
        assert (done.returncode, done.stdout) == (3, b"")
        assert words.encode() in done.stderr
    bad.write_text("{", encoding="utf-8")
    assert run_quern("plan", GLM, "--hw", bad).returncode == 3


@pytest.mark.parametrize("arguments, code, words", [
    ([], 2, "CONFIG_OR_DIR is missing"),
    (["absent.json"], 3, "absent.json"),
    (["tests/data"], 3, "config.json"),
    (["README.md", "--no-measure"], 3, "README.md"),
    ([GLM, "--ranks", "65"], 2, "--ranks"),
    ([GLM, "--acceptance", "1.5"], 2, "--acceptance"),
    ([GLM, "--memory", "1"], 2, "--memory"),
    ([GLM, "--max-model-len", "2M"], 2, "--max-model-len"),
    ([GLM, "--no-measure", "--disk", "absent"], 3, "absent"),
])
def test_usage(run_quern, arguments, code, words):
    done = run_quern("plan", *arguments)
    assert done.returncode == code, done.stderr
    assert words.encode() in done.stderr
    assert done.stdout == b""
