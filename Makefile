# Each target needs nothing but python3, make and a network: the first one run makes .venv and installs into it.

PYTHON ?= python3
BIN := .venv/bin

# The newest Python that is tested; where pyenv has it but does not put it on the path, pyenv is asked.
NEWEST_PYTHON ?= $(shell python3.13 -c "" 2>/dev/null && echo python3.13 || echo "$$(pyenv prefix 3.13)/bin/python")
NEWEST := .venv-newest/bin

.PHONY: demo test test-all test-variants consistent test-slow test-kernels test-newest verify campaign bench comparison docs site-check wheel lint format clean

demo: .venv/installed
	$(BIN)/python examples/01_path_synthesis.py

# Each element, analysis, formulation, method, file format and command, once.
test: .venv/installed
	$(BIN)/pytest -n 2 --dist loadfile -m "not slow and not variant"

# All tests but the slow ones.
test-all: .venv/installed
	$(BIN)/pytest -n 2 --dist loadfile -m "not slow"

test-variants: .venv/installed
	$(BIN)/pytest -n 2 --dist loadfile -m "variant and not slow"

# Whether all lists and pages know of what is new: see CONTRIBUTING.md.
consistent: lint
	$(BIN)/pytest -n 2 $(addprefix tests/project/test_,$(addsuffix .py,interface docstrings nothing_is_forgotten site pages abstract_or_final annotations))

test-slow: .venv/installed
	JAXMBS_TEST_SHAPES=off $(BIN)/pytest -n 2 -W default -m slow

# The engine's tests through what a GPU would run, thread by thread on this processor.
test-kernels: .venv/installed
	JAXMBS_EMISSION=gpu-on-host $(BIN)/pytest -n 2 -m "not slow" tests/programs

# The engine, and a mechanism in every analysis, on the newest JAX and Python; `make test` has the oldest.
# What newer packages deprecate is said, and no error.
test-newest: .venv-newest/installed
	$(NEWEST)/pytest -n 2 -W default::DeprecationWarning -m "not slow" -k "programs or gradient_cost or 3.6" tests/programs tests/verification tests/dynamics/test_gradient_cost.py

# Every published problem and closed form, against what this package computes: the table, and the site's page "Verification".
# MuJoCo, Pinocchio and Exudyn take part in the diagrams where they are installed: .venv/bin/pip install -e ".[bench]"
verify: .venv/installed
	$(BIN)/python -m verification

# Random checks of everything: make campaign SECONDS=3600 JOBS=2 FOLDER=kept; what is in the folder is continued.
# What was found is asked again by make campaign SEED=… ONLY=….
SECONDS ?= 120
JOBS ?= 1
campaign: .venv/installed
	$(BIN)/python -m campaign --seconds $(SECONDS) --jobs $(JOBS) $(if $(SEED),--seed $(SEED)) $(if $(FOLDER),--folder $(FOLDER)) $(if $(ONLY),--only "$(ONLY)")

# MuJoCo, MJX, Pinocchio and pylinkage take part where they are installed: .venv/bin/pip install -e ".[bench]"
bench: .venv/installed
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/kernels.py

# This package beside others, task by task: the site's page "Beside other tools". Who is not installed takes no part.
comparison: .venv/installed
	$(BIN)/python benchmarks/comparison.py

docs: .venv/installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

# The site in a browser, where Chromium is installed.
site-check: .venv/installed
	JAXMBS_SITE_CHECK=on $(BIN)/pytest tests/project/test_site_in_browser.py

# Source distribution and wheel, built and installed afresh, and the README's commands with them; a few on the newest Python.
wheel:
	PYTHON="$(PYTHON)" NEWEST_PYTHON="$(NEWEST_PYTHON)" .ci/wheel

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

.venv-newest/installed: pyproject.toml
	$(NEWEST_PYTHON) -m venv .venv-newest
	$(NEWEST)/python -m pip install --quiet --upgrade pip
	$(NEWEST)/python -m pip install --quiet --upgrade --editable . pytest pytest-xdist pytest-timeout beartype hypothesis scipy "nvidia-cuda-nvcc>=13"
	touch $@

clean:
	rm -rf .venv .venv-newest .cache .pytest_cache .ruff_cache examples/output build dist
