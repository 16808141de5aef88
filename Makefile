# Each target needs nothing but python3, make and a network: the first one run makes .venv and installs into it.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow bench docs wheel lint format clean

demo: .venv/installed
	$(BIN)/python examples/01_path_synthesis.py

test: .venv/installed
	$(BIN)/pytest -n 2 -m "not slow"

test-slow: .venv/installed
	$(BIN)/pytest -n 2 -m slow

# MuJoCo, MJX, Pinocchio and pylinkage take part where they are installed: .venv/bin/pip install -e ".[bench]"
bench: .venv/installed
	$(BIN)/python benchmarks/run.py

docs: .venv/installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

# The wheel installed afresh, and the README's commands with it.
wheel:
	.ci/wheel

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

clean:
	rm -rf .venv .cache .pytest_cache .ruff_cache examples/output build dist
