# The only entry points. `make demo` and `make test` need cargo, a C and C++ compiler and nothing else;
# what is missing is named and, where possible, installed by scripts/deps.sh.

SHELL := /bin/bash
# Compiled dependencies live outside the clone, so that a fresh clone builds only Ocelli itself.
export CARGO_TARGET_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ocelli/target
OCELLI := $(CARGO_TARGET_DIR)/release/ocelli

.PHONY: help demo test lint loom bench conformance deps

help:
	@echo "make demo         build, serve a small checkpoint, encode a photograph, check the rows"
	@echo "make test         every test; a few minutes from nothing on two cores"
	@echo "make lint         formatting and clippy"
	@echo "make bench        measure next to PyTorch and sglang, write docs/benchmarks.md (long)"
	@echo "make conformance  sglang's own receiver against ocelli serve (sets up 6.6 GB of Python once)"

deps:
	@scripts/deps.sh

demo: deps
	@echo "building the release binary (a few minutes the first time)"
	@cargo build --release --quiet --package ocelli
	@$(OCELLI) demo

test: deps
	@scripts/test.sh

loom: deps
	@scripts/loom.sh

lint: deps
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

bench: deps
	@scripts/bench/run.py

conformance: deps
	@scripts/conformance.sh
