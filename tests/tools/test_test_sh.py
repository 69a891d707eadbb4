"""tools/test.sh ends with what failed: of a long log often the last lines are all that is seen."""

import pathlib
import shutil
import subprocess

import pytest

TOOL = pathlib.Path(__file__).resolve().parent.parent.parent / "tools" / "test.sh"
STAGES = ("fmt-check", "includes-check", "docs-check", "build", "unit", "api", "asan", "tsan", "lint", "fuzz")
NOISE = "".join(f"line {n} of a stage that says much\n" for n in range(1000))


@pytest.fixture
def run_stages(tmp_path):
    """Runs test.sh with stages that say a text and fail; the others say NOISE and pass. Gives what comes after the last
    stage's own output."""

    def run(failing, *names):
        (tmp_path / "tools").mkdir()
        shutil.copy(TOOL, tmp_path / "tools")
        rules = []
        for stage in STAGES:
            (tmp_path / f"{stage}.out").write_text(failing.get(stage, NOISE))
            rules.append(f"{stage}:\n\t@cat {stage}.out\n" + ("\t@false\n" if stage in failing else ""))
        (tmp_path / "Makefile").write_text(f".PHONY: {' '.join(STAGES)}\n" + "".join(rules))
        done = subprocess.run(["bash", tmp_path / "tools" / "test.sh", *names], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        return done.returncode, done.stdout[done.stdout.rindex("\n---- "):]

    return run


def test_failing_test_is_named_at_the_end(run_stages):
    code, end = run_stages({"api": NOISE + "E       assert 3 == 4\n" + NOISE +
                                   "FAILED tests/api/test_a.py::test_b - assert 3 == 4\n1 failed, 7 passed in 2.00s\n"})
    assert code == 1
    assert end.index("==== what failed in api\n") < end.index("E       assert 3 == 4\n") < \
        end.index("FAILED tests/api/test_a.py::test_b") < end.index("==== result\n")
    assert "what failed in unit" not in end and "says much" not in end


@pytest.mark.parametrize("stage, words", [
    ("unit", ["[  ERROR   ] --- 0x1 != 0x2", "[   LINE   ] --- a.c:12: error: Failure!", "[  FAILED  ] test_of_it",
              "3/9 Test #3: unit_base_a .....***Failed    0.10 sec"]),
    ("build", ["src/base/a.c:3:5: error: unused variable 'x' [-Werror=unused-variable]"]),
    ("asan", ["==7==ERROR: AddressSanitizer: heap-use-after-free", "a.c:7:3: runtime error: signed integer overflow",
              "SUMMARY: AddressSanitizer: heap-use-after-free a.c:3 in f"]),
    ("tsan", ["WARNING: ThreadSanitizer: data race (pid=7)", "8/9 Test #8: unit_base_pool ....***Timeout 600.00 sec"]),
    ("fuzz", ["fuzz_json: FAILED while the units were replayed"]),
])
def test_words_of_every_stage_are_told_again(run_stages, stage, words):
    code, end = run_stages({stage: NOISE + NOISE.join(f"{line}\n" for line in words) + NOISE})
    assert code == 1
    assert [line for line in words if line not in end] == []


def test_stage_that_fails_without_a_known_word_shows_its_last_lines(run_stages):
    code, end = run_stages({"docs-check": NOISE + "docs/a.md: no such place\n"})
    assert code == 1 and "docs/a.md: no such place\n" in end


def test_many_failures_leave_the_table_in_sight(run_stages):
    flood = "".join(f"E   text {n} {'x' * 5000}\nFAILED tests/api/test_a.py::test_{n}\n" for n in range(500))
    code, end = run_stages({stage: flood for stage in STAGES})
    assert code == 1
    assert end.count("\n") < len(STAGES) * 45 + 20 and len(end) < len(STAGES) * 12000
    assert end.count("E   text 0 ") == end.count("::test_499\n") == len(STAGES)


def test_stages_that_pass_leave_the_table_alone(run_stages):
    code, end = run_stages({}, "unit", "lint")
    assert code == 0
    assert "what failed" not in end
    assert [line.split()[:2] for line in end[end.index("==== result\n"):].splitlines()[1:]] == \
        [["unit", "ok"], ["lint", "ok"], ["total", "ok"]]
