# The short way in. `make demo` and `make test` install from Debian what is missing; the others expect it there.

SHELL = /bin/bash -o pipefail
JOBS ?= $(shell nproc)
PYTHON ?= /usr/bin/python3
PYTEST = build/python/bin/python -m pytest -q -rsfE
SOURCES = $(shell git ls-files --cached --others --exclude-standard 'src/*.[ch]' 'include/*.h' 'tests/*.[ch]')
# Warnings are errors in CI only, so that a newer compiler's new warning keeps nobody from building.
CMAKE_OPTIONS = $(if $(CI),-DCMAKE_COMPILE_WARNING_AS_ERROR=ON)

define HELP
make demo        install what is missing, build, and let the shipped model answer a prompt
make build       build build/release/quern and its tests
make test        install what is missing, then run every check and test (what CI runs)

make unit        unit and golden tests on the release build
make api         tests of the HTTP server, the commands and the tools (pytest)
make asan        all tests under the address and undefined-behaviour sanitizers, with clang
make tsan        the tests in which threads meet, under the thread sanitizer
make fuzz        every fuzz target for 100,000 runs, with the line coverage of its parser
make fmt         format the sources          make fmt-check   fail where they are not
make lint        clang-tidy                  make docs-check  fail on broken links
make includes-check                          fail on an include against the order of the rooms
make debug       build/debug/quern           make clean       remove build/
endef
export HELP

.PHONY: help demo build debug test unit api asan tsan fuzz fmt fmt-check lint docs-check includes-check clean
.PHONY: build-asan build-tsan python-env

help:
	@echo "$$HELP"

demo:
	@tools/setup.sh build
	@cmake --preset release $(CMAKE_OPTIONS) >/dev/null
	@cmake --build --preset release -j $(JOBS) --target quern
	build/release/quern run models/quern-tiny -p "The secret code of Anna is 4711. The baker has a yellow bridge. What is the secret code of Anna?"

test:
	@tools/setup.sh test
	@tools/test.sh

build:
	cmake --preset release $(CMAKE_OPTIONS)
	cmake --build --preset release -j $(JOBS)

debug:
	cmake --preset debug $(CMAKE_OPTIONS)
	cmake --build --preset debug -j $(JOBS)

unit: build
	ctest --preset release -j $(JOBS)

python-env:
	@tools/python_env.sh $(PYTHON)

api: build python-env
	QUERN_BIN=$(CURDIR)/build/release/quern $(PYTEST)

build-asan:
	cmake --preset asan-ubsan $(CMAKE_OPTIONS)
	cmake --build --preset asan-ubsan -j $(JOBS)

asan: build-asan python-env
	ctest --preset asan-ubsan -j $(JOBS)
	ASAN_OPTIONS=detect_leaks=1 QUERN_KV_CRASH_KILLS=10 QUERN_BIN=$(CURDIR)/build/asan-ubsan/quern \
		$(PYTEST) tests/api

build-tsan:
	cmake --preset tsan $(CMAKE_OPTIONS)
	cmake --build --preset tsan -j $(JOBS)

tsan: build-tsan
	ctest --preset tsan -j $(JOBS)

fuzz:
	cmake --preset fuzz $(CMAKE_OPTIONS)
	cmake --build --preset fuzz -j $(JOBS)
	tools/fuzz.sh build/fuzz

fmt:
	@clang-format-14 -i $(SOURCES)

fmt-check:
	@clang-format-14 --dry-run -Werror $(SOURCES) && echo "format: $(words $(SOURCES)) files as they should be"

lint:
	cmake --preset asan-ubsan $(CMAKE_OPTIONS)
	@git ls-files 'src/*.c' | xargs -P $(JOBS) -n 4 clang-tidy-14 -p build/asan-ubsan --quiet 2>&1 \
		| sed '/ warnings* generated[.]$$/d' && echo "clang-tidy: clean"

includes-check:
	$(PYTHON) tools/check_includes.py

docs-check:
	$(PYTHON) tools/check_docs.py

clean:
	rm -rf build
