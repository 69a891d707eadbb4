#!/usr/bin/env bash
# Runs every check and test, each as the Makefile's target of that name, and goes on after a failure, so that one run
# tells all that is wrong. Ends with a table of results and times; fails when any stage did.
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

failed=0
table=()
started=$SECONDS
for stage in "${stages[@]}"; do
    name=${stage%%:*}
    if [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; then
        continue
    fi
    printf '\n==== %s (make %s)\n' "${stage#*:}" "$name"
    stage_started=$SECONDS
    result=ok
    if ! make --no-print-directory "$name"; then
        result=FAILED
        failed=$((failed + 1))
    fi
    printf -- '---- %s: %s in %d s\n' "$name" "$result" $((SECONDS - stage_started))
    table+=("$(printf '%-16s %-7s %5d s' "$name" "$result" $((SECONDS - stage_started)))")
done

printf '\n==== result\n'
printf '%s\n' "${table[@]}"
printf '%-16s %-7s %5d s\n' total "$([ $failed -eq 0 ] && echo ok || echo FAILED)" $((SECONDS - started))
exit $((failed > 0))
