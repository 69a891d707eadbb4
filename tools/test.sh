#!/usr/bin/env bash
# Runs every check and test, each as the Makefile's target of that name, and goes on after a failure, so that one run
# tells all that is wrong. Ends with what failed, in the stages' own words, and a table of results and times, so that the
# last lines of a long log suffice; fails when any stage did.
#
#   tools/test.sh [STAGE...]    all stages, or the named ones
set -uo pipefail
cd "$(dirname "$0")/.."

stages=(
    "fmt-check:sources are formatted"
    "includes-check:includes follow the order of the rooms"
    "docs-check:links between documents"
    "build:release build"
    "unit:unit and golden tests"
    "api:server and command tests"
    "asan:all tests under address and undefined-behaviour sanitizers"
    "tsan:threaded tests under the thread sanitizer"
    "lint:clang-tidy"
    "fuzz:fuzz targets and their coverage"
)

# What the output of a failed stage says of it, in at most 40 lines: why (pytest, cmocka, compilers, sanitizers; the last
# lines where none of these has a word), then which (pytest, ctest, cmocka, make, the tools).
why='^E  |^\[  ERROR   \]|: (fatal )?error:|: warning:|: runtime error: |ERROR: [A-Za-z]+Sanitizer|WARNING: ThreadSanitizer'
which='^(FAILED|ERROR) |\*\*\*|^\[  FAILED  \] |^SUMMARY: |^[a-z_]+: FAILED'
tell_failure() {
    {
        grep -aE "$why" "$1" | awk '!told[$0]++ && count++ < 20' | grep . || tail -n 20 "$1"
        grep -aE "$which" "$1" | awk '!told[$0]++' | tail -n 20
    } | cut -c 1-400
}

failed=0
table=()
failures=
output=$(mktemp)
trap 'rm -f "$output"' EXIT
started=$SECONDS
for stage in "${stages[@]}"; do
    name=${stage%%:*}
    if [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; then
        continue
    fi
    printf '\n==== %s (make %s)\n' "${stage#*:}" "$name"
    stage_started=$SECONDS
    result=ok
    if ! make --no-print-directory "$name" 2>&1 | tee "$output"; then
        result=FAILED
        failed=$((failed + 1))
        failures+=$(printf '\n==== what failed in %s\n' "$name" && tell_failure "$output")$'\n'
    fi
    printf -- '---- %s: %s in %d s\n' "$name" "$result" $((SECONDS - stage_started))
    table+=("$(printf '%-16s %-7s %5d s' "$name" "$result" $((SECONDS - stage_started)))")
done

printf '%s\n==== result\n' "$failures"
printf '%s\n' "${table[@]}"
printf '%-16s %-7s %5d s\n' total "$([ $failed -eq 0 ] && echo ok || echo FAILED)" $((SECONDS - started))
exit $((failed > 0))
