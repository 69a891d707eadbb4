#!/usr/bin/env bash
# Runs the fuzz targets of a build made with the `fuzz` preset, each for QUERN_FUZZ_RUNS inputs grown from its seeds in
# tests/fuzz/corpus/NAME, then replays seeds and finds to print the line coverage of the parser that the target names at
# its head (tests/fuzz/CMakeLists.txt tells the form). Fails on a crash, a hang, a leak, too few runs, or coverage below
# 85 %. What was found goes to BUILD_DIR/fuzz/NAME, never into the repository: a unit worth keeping is copied by hand.
#
#   tools/fuzz.sh BUILD_DIR [NAME...]
#
# QUERN_FUZZ_RUNS   runs per target; 100000 unless set
# QUERN_FUZZ_SEED   of the random inputs; 1 unless set, so that CI judges a change and not its luck; 0: a new one
set -uo pipefail
cd "$(dirname "$0")/.."
build=${1:?usage: tools/fuzz.sh BUILD_DIR [NAME...]}
shift
runs=${QUERN_FUZZ_RUNS:-100000}
seed=${QUERN_FUZZ_SEED:-1}
least_coverage=85

# The rest of the head line "/* KEY: REST */" of a target's source.
head_line() {
    head -n 8 "$1" | sed -n "s|^\(/[*/]\) *$2: *\(.*\)|\2|p" | sed 's| *[*]/ *$||' | head -n 1
}

fuzz_one() {
    local name=$1 source=tests/fuzz/fuzz_$1.c work=$build/fuzz/$1
    local binary corpus=tests/fuzz/corpus/$1 max_len dictionary=()
    binary=$(find "$build" -type f -name "fuzz_$name" -perm -u+x | head -n 1)
    max_len=$(head_line "$source" max_len)
    [ -f "tests/fuzz/$name.dict" ] && dictionary=("-dict=tests/fuzz/$name.dict")
    if [ -z "$binary" ] || [ ! -d "$corpus" ]; then
        echo "fuzz_$name: not built, or without seeds in $corpus"
        return 1
    fi
    rm -rf "$work"
    mkdir -p "$work/found"
    local limits=(-timeout=10 -rss_limit_mb=2048 "-max_len=${max_len:-4096}" "-artifact_prefix=$work/")

    echo "fuzz_$name: $(find "$corpus" -type f | wc -l) seeds"
    if ! LLVM_PROFILE_FILE=/dev/null "$binary" "-runs=$runs" "-seed=$seed" "${limits[@]}" "${dictionary[@]}" \
        -print_final_stats=1 "$work/found" "$corpus" >"$work/log" 2>&1; then
        tail -n 60 "$work/log"
        echo "fuzz_$name: FAILED; the input lies in $work"
        return 1
    fi
    local done
    done=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/log")
    echo "fuzz_$name: $done executions, $(find "$work/found" -type f | wc -l) new units, $(grep -o 'Done .*' "$work/log")"
    if [ "${done:-0}" -lt "$runs" ]; then
        echo "fuzz_$name: FAILED: fewer executions than the $runs asked for"
        return 1
    fi

    if ! LLVM_PROFILE_FILE=$work/replay.profraw "$binary" -runs=0 "${limits[@]}" "$corpus" "$work/found" \
        >"$work/replay.log" 2>&1; then
        tail -n 60 "$work/replay.log"
        echo "fuzz_$name: FAILED while the units were replayed"
        return 1
    fi
    llvm-profdata-14 merge -sparse "$work/replay.profraw" -o "$work/replay.profdata" || return 1
    # unquoted: the line may hold several names and patterns
    # shellcheck disable=SC2046
    llvm-cov-14 export -summary-only -instr-profile="$work/replay.profdata" "$binary" |
        /usr/bin/python3 tools/fuzz_coverage.py "fuzz_$name" "$least_coverage" $(head_line "$source" covers)
}

names=("$@")
if [ ${#names[@]} -eq 0 ]; then
    for source in tests/fuzz/fuzz_*.c; do
        name=${source##*/fuzz_}
        [ -f "$source" ] && names+=("${name%.c}")
    done
fi
if [ ${#names[@]} -eq 0 ]; then
    echo "fuzz: no targets in tests/fuzz" >&2
    exit 1
fi

# as many targets at a time as there are CPUs; the output of each stays together
export -f fuzz_one head_line
export build runs seed least_coverage
mkdir -p "$build/fuzz"
printf '%s\0' "${names[@]}" |
    xargs -0 -P "$(nproc)" -I{} bash -c 'fuzz_one {} >"$build/fuzz/{}.out" 2>&1; rc=$?; cat "$build/fuzz/{}.out"; exit $rc'
rc=$?
[ $rc -eq 0 ] && echo "fuzz: ${#names[@]} targets clean" || echo "fuzz: FAILED" >&2
exit $((rc != 0))
