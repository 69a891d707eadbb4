#!/usr/bin/env bash
# Makes the Python environment of the tests, build/python, as tests/api/requirements.txt pins it, from PyPI (where pip's
# own settings name no other index). One that was made of the same file is kept, and needs no network.
#
#   tools/python_env.sh [PYTHON]    the interpreter it is made with; by default /usr/bin/python3
set -euo pipefail
cd "$(dirname "$0")/.."

python=${1:-/usr/bin/python3}
requirements=tests/api/requirements.txt
folder=build/python
made_of=$folder/requirements.txt # written last, so that half an environment is never taken for a whole one

if cmp -s "$requirements" "$made_of" && "$folder/bin/python" -c "import pytest" 2>/dev/null; then
    exit 0
fi

echo "python: making $folder from $requirements"
started=$SECONDS
rm -rf "$folder"
if ! "$python" -m venv "$folder"; then
    echo "python: $python makes no virtual environment: install python3-venv (tools/setup.sh test does)" >&2
    exit 4
fi
if ! "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
    --requirement "$requirements"; then
    echo "python: what $requirements names could not be installed: pip's message above says why; PyPI, or the index" \
        "that pip is set to, must be reachable the first time" >&2
    exit 4
fi
cp "$requirements" "$made_of"
echo "python: $folder is ready, after $((SECONDS - started)) s"
