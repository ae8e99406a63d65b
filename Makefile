# Thin front of CMake. `make demo` runs the main job, `make test` passes the tests; both install
# what they need first (Debian 12; root or sudo).

PYTHON ?= /usr/bin/python3
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local

.PHONY: all build deps deps-test demo test soak bench check format install clean

all: build

build: deps
	@cmake --preset release -G Ninja -DCMAKE_INSTALL_PREFIX=$(PREFIX)
	@cmake --build --preset release -j $(JOBS)

deps:
	@scripts/install-deps build

deps-test:
	@scripts/install-deps build test

demo: build
	@scripts/install-deps demo
	@$(PYTHON) examples/demo/demo.py

test: deps-test
	@$(PYTHON) scripts/run-tests --jobs $(JOBS)

soak: deps-test
	@LMC_SOAK=1 $(PYTHON) scripts/run-tests --jobs $(JOBS)

bench: build
	@scripts/install-deps demo
	@$(PYTHON) bench/run.py

check: deps
	@scripts/install-deps check
	@scripts/check-style

format:
	@git ls-files '*.c' '*.h' ':!tests/abi' | xargs clang-format -i

install: build
	@cmake --install build

clean:
	@rm -rf build build-*
