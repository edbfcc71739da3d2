# `make demo` and `make test` set up all they need in .venv on a fresh machine with Python 3.11 or newer.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check lint docs bench clean

demo: $(VENV)/ready
	rm -rf demo.mdtrace demo.html
	$(BIN)/mdtrace ingest sample_traces/simulated_8rank/kineto/*.gz -o demo.mdtrace
	$(BIN)/mdtrace info demo.mdtrace
	$(BIN)/mdtrace overlap demo.mdtrace
	$(BIN)/mdtrace stragglers demo.mdtrace
	$(BIN)/mdtrace report demo.mdtrace -o demo.html

test: $(VENV)/ready
	$(BIN)/pytest -n auto

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/cog --check README.md

check: lint test

# Writes the generated parts of README.md anew.
docs: $(VENV)/ready
	$(BIN)/cog -r README.md

bench: $(VENV)/ready
	$(BIN)/python tests/bench/run.py

clean:
	rm -rf $(VENV) demo.mdtrace demo.html .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@
