# Each target works as the first command in a fresh clone; `make PYTHON=python3.12 test` chooses the interpreter, and
# `make CORPUS=DIR accuracy` the folder that the public projects lie in, or are brought to.
# Kept to what the make 3.81 of macOS understands.

VERSION_OK = import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))
PYTHON ?= $(shell for each in python3 python3.13 python3.12 python3.11 python3.10; do \
    if $$each -c '$(VERSION_OK)' >/dev/null 2>&1; then echo $$each; exit; fi; done; echo python3)

VENV = .venv
BIN = $(VENV)/bin
PYTEST = $(BIN)/python -m pytest --numprocesses logical --maxprocesses 8 --dist loadfile \
    --no-loadscope-reorder
PIP = $(BIN)/python -m pip --disable-pip-version-check --quiet
WORKLOADS = fixtures/workloads
CORPUS_OPTION = $(if $(CORPUS),--corpus $(CORPUS))
CORPUS_FOLDER = $(if $(CORPUS),$(CORPUS),$(HOME)/.cache/torchperf-lint-corpus)

.PHONY: help demo test test-all checked verify vscode consumers mutants gpu accuracy programs upstream bench docs clean

help:
	@echo "make demo     lint the example training programs and show what the fixes would change"
	@echo "make test     what a change has to pass before it is kept: ruff, mypy, the quick tests"
	@echo "make test-all the same with all tests, as continuous integration runs them"
	@echo "make verify   run the rules' programs unfixed and fixed on the simulated device"
	@echo "make vscode   build, test and package the extension for VS Code; it needs Node.js 20 and downloads packages"
	@echo "make consumers drive Neovim, Chromium and validators from npm: what they make of our server and reports"
	@echo "make mutants  break every fix on purpose, and see whether the rules' programs reject it"
	@echo "make gpu      all of that on a real GPU, and step times, in less than 20 minutes"
	@echo "make accuracy hold the linter against labelled sites of public projects, which it downloads"
	@echo "make programs run real training programs before and after our fixes, in environments which it makes"
	@echo "make upstream run the tests of public packages before and after our fixes, in environments which it makes"
	@echo "make docs     build the site of the README and the rules' pages, with a search, in build/site"
	@echo "make bench    measure the linter's speed, beside other linters, on public projects, which it downloads"
	@echo "make clean    remove what the other targets made"

demo: $(VENV)/demo-stamp
	$(BIN)/torchperf-lint --isolated --exit-zero --output-format full $(WORKLOADS)
	$(BIN)/torchperf-lint --isolated --exit-zero --diff --unsafe-fixes $(WORKLOADS)

test: checked
	$(PYTEST) -m 'not slow'

test-all: checked
	$(PYTEST)

checked: $(VENV)/test-stamp
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

verify: $(VENV)/test-stamp
	$(BIN)/torchperf-lint verify --device sim --releases $(VENV)/releases
	$(BIN)/torchperf-lint verify --device sim --releases $(VENV)/releases --experiments

# The packages come from a registry: one more try, where it did not answer.
vscode: $(VENV)/test-stamp
	cd editors/vscode && { npm ci || npm ci; }
	cd editors/vscode && npm run check
	cd editors/vscode && TORCHPERF_LINT_PYTHON=$(abspath $(BIN))/python npm test
	cd editors/vscode && npm run package

consumers: $(VENV)/consumers-stamp
	@$(BIN)/python tests/other_programs.py
	$(BIN)/python -m pytest --consumers tests/consumers

mutants: $(VENV)/test-stamp
	$(BIN)/python benchmarks/mutants.py --releases $(VENV)/releases
	$(BIN)/python -m pytest tests/verify/test_script_under_torchrun.py

# Without the network, in an environment that has torch, torchmetrics and libcst: make gpu BIN=DIR, where DIR/python lies.
gpu:
	$(BIN)/python -m torchperf_lint.verify.gpu

accuracy: $(VENV)/demo-stamp
	$(BIN)/python benchmarks/corpus.py $(CORPUS_OPTION)
	$(BIN)/python benchmarks/accuracy.py $(CORPUS_OPTION)

# `make PROGRAMS="NAME ..." programs` runs some of them.
programs: $(VENV)/programs-stamp
	$(BIN)/python benchmarks/programs/run.py $(PROGRAMS)

# `make SUITES="NAME ..." upstream` runs some of them.
upstream: $(VENV)/programs-stamp
	$(BIN)/python benchmarks/upstream/run.py $(SUITES)

docs: $(VENV)/test-stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# About half an hour. What takes longer: `growth.py --full` (5,000 files), `scale.py` (parts of transformers) and
# `speed.py --full` (all of torch). `python benchmarks/readme.py` runs the same and writes benchmarks/README.md.
bench: $(VENV)/test-stamp
	$(BIN)/python benchmarks/work.py
	$(BIN)/python benchmarks/imports.py
	$(BIN)/python benchmarks/latency.py
	$(BIN)/python benchmarks/corpus.py --pypi $(CORPUS_OPTION)
	$(BIN)/python benchmarks/speed.py $(CORPUS_OPTION)
	$(BIN)/python benchmarks/where.py $(CORPUS_FOLDER)/torch --sample 300
	$(BIN)/python benchmarks/where.py $(CORPUS_FOLDER)/sentence-transformers
	$(BIN)/python benchmarks/collector.py $(CORPUS_FOLDER)/sentence-transformers
	$(BIN)/python benchmarks/cache.py $(CORPUS_FOLDER)/sentence-transformers --changes 6
	$(BIN)/python benchmarks/growth.py $(CORPUS_OPTION)
	$(BIN)/python benchmarks/peers.py $(CORPUS_OPTION)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	cd editors/vscode && rm -rf node_modules build dist *.vsix
	find torchperf_lint tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/demo-stamp: $(VENV)/made pyproject.toml constraints.txt
	$(PIP) install --editable . --constraint constraints.txt
	touch $@

$(VENV)/test-stamp: $(VENV)/made pyproject.toml constraints.txt
	$(PIP) install --editable '.[dev,verify]' --constraint constraints.txt
	touch $@

$(VENV)/consumers-stamp: $(VENV)/test-stamp
	$(PIP) install --editable '.[consumers]' --constraint constraints.txt
	touch $@

$(VENV)/programs-stamp: $(VENV)/made pyproject.toml constraints.txt
	$(PIP) install --editable '.[programs,verify]' --constraint constraints.txt
	touch $@

$(VENV)/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	    echo "torchperf-lint needs Python 3.10 or newer, and '$(PYTHON)' is not one;" \
	         "name one with: make PYTHON=/path/to/python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' || { \
	    echo "'$(PYTHON)' cannot make virtual environments; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	touch $@
