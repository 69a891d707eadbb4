#!/usr/bin/env bash
# Installs what is missing from Debian, saying what. With everything there it does nothing and needs no network.
#
#   tools/setup.sh build    what building and running quern needs
#   tools/setup.sh test     that and what the tests and checks need
set -euo pipefail

build_packages=(
    gcc libc6-dev cmake ninja-build pkg-config
    libjansson-dev libpcre2-dev libutf8proc-dev libmicrohttpd-dev libgnutls28-dev libedit-dev libxxhash-dev
    libcurl4-openssl-dev liburing-dev libhwloc-dev
    libcmocka-dev # the build files declare the tests even where only the program is built
    libsimde-dev
)
test_packages=(
    clang-14 libclang-rt-14-dev llvm-14 clang-format-14 clang-tidy-14
    python3 python3-venv
)

case "${1:-}" in
build) packages=("${build_packages[@]}") ;;
test) packages=("${build_packages[@]}" "${test_packages[@]}") ;;
*)
    echo "usage: tools/setup.sh build|test" >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "setup: this is no Debian system; what quern needs has these names there: ${packages[*]}" >&2
    echo "setup: going on; the build tells what it does not find" >&2
    exit 0
fi

missing=()
for package in "${packages[@]}"; do
    if [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
        missing+=("$package")
    fi
done
if [ ${#missing[@]} -eq 0 ]; then
    echo "setup: nothing to install"
    exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "setup: missing: ${missing[*]}: run as root: apt-get install ${missing[*]}" >&2
        exit 4
    fi
    as_root=(sudo)
fi
as_root+=(env DEBIAN_FRONTEND=noninteractive)

echo "setup: installing from Debian: ${missing[*]}"
apt() {
    "${as_root[@]}" apt-get -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 -qq "$@"
}
tries=4
for ((try = 1; ; try++)); do
    # a list that cannot be fetched may be one that nothing here comes from, so the installation decides
    apt update || echo "setup: apt-get update had errors" >&2
    if apt -y --no-install-recommends install "${missing[@]}"; then
        break
    fi
    if [ "$try" -eq "$tries" ]; then
        echo "setup: apt-get failed $tries times: check the network and /etc/apt, then run this again" >&2
        exit 4
    fi
    echo "setup: trying again in $((try * 10)) s" >&2
    sleep $((try * 10))
done
