# Two commands a newcomer needs: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
PIP     = .venv/bin/pip --disable-pip-version-check
BIN     = .venv/bin
# A process per core, each with one thread: faster than one with many, and never two fighting for a core. A file's tests
# stay together, as they share what took long to make; tests/conftest.py has the longest files start first.
PYTEST  = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

.PHONY: demo docs test test-full test-anywhere test-browser test-fuzz lint setup clean

demo: setup
	$(BIN)/cuvee demo

test: lint
	$(PYTEST)

test-full: lint
	$(PYTEST) -m "not browser"

test-anywhere: setup  # the numeric tests as other processors, libraries and threads would run them
	$(BIN)/python tests/anywhere.py $(SETTINGS)

test-browser: setup
	.ci/browser
	$(BIN)/python -m pytest -m browser tests/browser

test-fuzz: setup  # a server asked by Schemathesis for half an hour
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz.py

docs: setup  # the API reference and the options of commands; the maps and the α methods; the verdicts on the page about the paper
	$(BIN)/python docs/make_api.py
	$(BIN)/python docs/make_maps.py
	$(BIN)/python docs/make_methods.py
	$(BIN)/python docs/make_paper.py
	$(BIN)/python -m cuvee.cli.reference docs/cli.md

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

setup: .venv/.installed

.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "cuvee needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) install -q -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf .venv build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
