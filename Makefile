# Each target sets up what it lacks, in .venv and .cache only, and may be called again at any time.
# Variables: PYTHON (which python3 makes .venv), ARGS (passed to rollout demo or pytest), ONLY (one benchmark),
# WORKERS (processes of make test and make faults), N and HEAVY (deaths, and blows under traffic, of make crash),
# N (sleepers of make zombies), SEED.

PYTHON ?= python3
ARGS ?=
# Each has a primary and a replica of its own; more than the cores make tests wait for each other.
WORKERS ?= 2
N ?= 500
HEAVY ?= 20
SEED ?= 1
BIN := .venv/bin
# What the tests' tools remember or leave lies with the rest.
export HYPOTHESIS_STORAGE_DIRECTORY := .cache/hypothesis
export PYTEST_DEBUG_TEMPROOT := $(CURDIR)/.cache
# Some machines forbid it; without compiled modules every command starts half a second later.
unexport PYTHONDONTWRITEBYTECODE

# Only the demo that asks for it, the tests and the benchmarks need gh-ost.
GHOST := $(if $(findstring gh-ost,$(ARGS) $(ONLY)),gh-ost)
FLAGD := $(if $(findstring flagd,$(ARGS)),flagd)

.PHONY: setup server gh-ost prometheus flagd demo test test-fast test-long faults crash zombies check bench clean

setup: server

.venv/.ready: constraints.txt pyproject.toml tools/environment
	@PYTHON="$(PYTHON)" tools/environment

server: .venv/.ready
	@$(BIN)/python -m orchestrator.sandbox.mysqld

gh-ost: .venv/.ready
	@tools/gh-ost/build

# Only the tests need one: gates are held to it.
prometheus:
	@tools/prometheus/unpack

# Only the demo that asks for it and two tests: the flag file that we write, read by OpenFeature's own provider.
flagd: .venv/.ready
	@tools/flagd/fetch

demo: server $(GHOST) $(FLAGD)
	@$(BIN)/rollout demo $(ARGS)

test: server gh-ost prometheus flagd
	$(BIN)/pytest -m "not slow" -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

test-fast: .venv/.ready
	$(BIN)/pytest -m "not slow and not integration" tests/unit $(wildcard tests/property) $(ARGS)

test-long: server gh-ost prometheus flagd
	HYPOTHESIS_PROFILE=long $(BIN)/pytest --timeout=1800 $(ARGS)

# What docs/reliability.md claims of faults, and make test has no time for.
faults: server gh-ost
	$(BIN)/pytest -m faults -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

crash: server gh-ost
	$(BIN)/python -m tests.crash.suite --seed $(SEED) --quick $(N) --heavy $(HEAVY) $(ARGS)

zombies: server
	$(BIN)/python -m tests.crash.suite --seed $(SEED) --zombies $(N) $(ARGS)

check: .venv/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/deptry orchestrator phases

bench: server gh-ost
	$(BIN)/python -m benchmarks $(if $(ONLY),--only $(ONLY)) $(ARGS)

clean:
	rm -rf .venv .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist benchmarks/out
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
