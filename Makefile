# Thin: each line calls a script or cmake. `make demo` and `make test` work on a fresh machine.
# SOTTO_TORCH=PATH uses an installed torch, SOTTO_CUDA=AUTO|ON|OFF chooses the CUDA kernels, CI=1 makes warnings errors.
.PHONY: build test demo check oracle wheel test-python test-slow bench clean help

build:      ## set up, configure and build everything in build/ (the default)
	@tools/build.sh dev

test:       ## build, then run every test but the slow ones
	@tools/test.sh

demo:       ## build the program and show what it does
	@tools/demo.sh

check:      ## formatting, linting, the rules of the tree, CUDA sources
	@tools/check.sh

oracle:     ## make the oracle's fixtures anew with pinned Python packages and compare
	@tools/setup.sh oracle
	@.deps/oracle/bin/python tests/oracle/run.py

wheel:      ## the Python package with the program, for pip, in build/wheel
	@tools/make_wheel.sh

test-python: ## build the wheel, install it into a clean environment without a compiler, and test it there
	@tools/test_python.sh

test-slow:  ## sanitizers, slow tests, fuzzing, clang-tidy over everything; prints a table for docs/verification.md
	@tools/test_slow.sh

bench:      ## build and run the benchmarks
	@tools/bench.sh

clean:      ## remove what was built; .deps/ stays
	@rm -rf build build-*

help:       ## this list
	@sed -n 's/^\([a-z-]*\): *## /  \1: /p' Makefile
