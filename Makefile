# Each target needs nothing but python3, make and a network: the first one run makes .venv and installs into it.

PYTHON ?= python3
BIN := .venv/bin

# The newest Python that is tested, from the path or from pyenv.
NEWEST_PYTHON ?= $(shell python3.13 -c "" 2>/dev/null && echo python3.13 || echo "$$(pyenv prefix 3.13)/bin/python")
NEWEST := .venv-newest/bin

# Tests for every change: the structure of a mechanism, formulas by hand, messages, the lists of the project.
QUICK := tests/system/test_topology.py tests/system/test_messages.py tests/planar/test_jacobians_by_hand.py tests/numerics \
	tests/haug/test_3_1_concepts.py tests/haug/test_3_6_analysis.py tests/project/test_interface.py tests/project/test_settings.py

.PHONY: help demo quick test test-all test-variants test-slow test-kernels test-newest test-tpu bench-tpu consistent verify campaign bench \
	comparison numbers docs figures site-check wheel lint format clean

help: ## the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1	\2/p' Makefile | expand -t 16

demo: .venv/installed ## synthesise a four-bar for a path, and draw it
	$(BIN)/python examples/01_path_synthesis.py

quick: lint ## lint, and tests for every change, in two minutes
	$(BIN)/pytest -n 2 --dist loadfile -m "not slow and not variant" $(QUICK)

test: .venv/installed ## each element, analysis, formulation, method, file format and command, once
	$(BIN)/pytest -n 2 --dist loadfile -m "not slow and not variant"

test-all: .venv/installed ## all tests except the slow ones
	$(BIN)/pytest -n 2 --dist loadfile -m "not slow"

test-variants: .venv/installed ## the tests of test-all that are not in test
	$(BIN)/pytest -n 2 --dist loadfile -m "variant and not slow"

test-slow: .venv/installed ## tests that take more than half a minute each
	JAXMBS_TEST_SHAPES=off $(BIN)/pytest -n 2 -W default -m slow

test-kernels: .venv/installed ## tests of the engine, with its GPU kernels run thread by thread on this processor
	JAXMBS_EMISSION=gpu-on-host $(BIN)/pytest -n 2 -m "not slow and not variant" tests/programs

# Deprecations in newer packages are printed, not raised.
test-newest: .venv-newest/installed ## the engine, and a mechanism in every analysis, on the newest JAX and Python
	$(NEWEST)/pytest -n 2 -W default::DeprecationWarning -m "not slow and not variant" -k "programs or gradient_cost or 3.6" tests/programs tests/verification tests/dynamics/test_gradient_cost.py

consistent: lint ## lists and pages that a new class has to be added to, see CONTRIBUTING.md
	$(BIN)/pytest -n 2 $(addprefix tests/project/test_,$(addsuffix .py,interface docstrings nothing_is_forgotten site pages abstract_or_final annotations))
	$(BIN)/pytest tests/spatial tests/viz tests/io/test_model_files.py -k "forgotten or is_complete or published_schema"

# Of libtpu alone: JAX looks for TPUs wherever it finds it, so it has a folder of its own.
FOR_TPU = PYTHONPATH=.venv/libtpu JAX_PLATFORMS=cpu TPU_SKIP_MDS_QUERY=1 ALLOW_MULTIPLE_LIBTPU_LOAD=1
test-tpu: .venv/libtpu ## kernels for TPUs, compiled by their own compiler
	$(FOR_TPU) $(BIN)/pytest -W default tests/programs/test_tpu_compiler.py

bench-tpu: .venv/libtpu ## benchmarks/tpu.md: time, memory and size of kernels for TPUs
	$(FOR_TPU) $(BIN)/python benchmarks/tpu.py

# MuJoCo, Pinocchio and Exudyn take part in the diagrams if they are installed: .venv/bin/pip install -e ".[bench]"
verify: .venv/installed ## every published problem and closed form; writes the page "Verification"
	$(BIN)/python -m verification

# Continue the campaign of a folder: make campaign SECONDS=3600 JOBS=2 FOLDER=kept. Repeat a find: SEED=… ONLY=….
SECONDS ?= 120
JOBS ?= 1
campaign: .venv/installed ## random checks, SECONDS long
	$(BIN)/python -m campaign --seconds $(SECONDS) --jobs $(JOBS) $(if $(SEED),--seed $(SEED)) $(if $(FOLDER),--folder $(FOLDER)) $(if $(ONLY),--only "$(ONLY)")

# MuJoCo, MJX, Pinocchio and pylinkage take part if they are installed: .venv/bin/pip install -e ".[bench]"
bench: .venv/installed ## speed, beside a C++ kernel, textbook JAX and other packages
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/sweeps.py
	$(BIN)/python benchmarks/kernels.py

comparison: .venv/installed ## the installed tools beside this package; writes the page "Beside other tools"
	$(BIN)/python benchmarks/comparison.py

numbers: .venv/installed ## the numbers of README, pages and paper, from the files of results
	$(BIN)/python docs/site/number_markers.py

docs: .venv/installed ## the site, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

figures: .venv/installed ## the drawings of the site, in build/figures
	$(BIN)/python docs/site/figures.py

site-check: .venv/installed ## the site in Chromium, if it is installed
	JAXMBS_SITE_CHECK=on $(BIN)/pytest tests/project/test_site_in_browser.py

wheel: ## source distribution and wheel, built and installed afresh, with the commands of docs/index.md
	PYTHON="$(PYTHON)" NEWEST_PYTHON="$(NEWEST_PYTHON)" .ci/wheel

lint: .venv/installed ## ruff, mypy, the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/installed ## format the code; before a commit
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove what the other targets made
	rm -rf .venv .venv-newest .cache .pytest_cache .ruff_cache examples/output build dist

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

.venv/libtpu: .venv/installed
	$(BIN)/pip install -q --no-deps --target .venv/libtpu libtpu
	touch .venv/libtpu

.venv-newest/installed: pyproject.toml
	$(NEWEST_PYTHON) -m venv .venv-newest
	$(NEWEST)/python -m pip install --quiet --upgrade pip
	$(NEWEST)/python -m pip install --quiet --upgrade --editable . pytest pytest-xdist pytest-timeout beartype hypothesis scipy "nvidia-cuda-nvcc>=13"
	touch $@

