# Two commands a newcomer needs: `make demo` and `make test`. Both set up .venv first, each with what it needs.
PYTHON ?= python3
PIP     = .venv/bin/pip --disable-pip-version-check
BIN     = .venv/bin
# A process per core, each with one thread: faster than one with many, and never two fighting for a core. A file's tests
# stay together, as they share what took long to make; tests/conftest.py has the longest files start first.
PYTEST  = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

SOURCES = $(shell find src -name '*.py')

.DEFAULT_GOAL := help
.PHONY: help demo demo-federated docs figures gallery test test-federated test-full test-anywhere test-browser test-fuzz lint setup site clean

help:  ## list what can be made
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-22s %s\n", $$1, $$2}'

demo: .venv/.demo  ## the paper's setting on MNIST digits, in under a minute
	$(BIN)/cuvee demo

demo-federated:  ## five hospitals over Flower with TLS on this machine, in a few minutes
	test -x .venv-flower/bin/python || $(PYTHON) -m venv .venv-flower
	.venv-flower/bin/pip --disable-pip-version-check install -q -c constraints.txt -e ".[flower]"
	.venv-flower/bin/python examples/federated/demo.py $(DEMO)

test-federated:  ## the command line with the versions that Flower pins, and Flower as real processes
	test -x .venv-flower/bin/python || $(PYTHON) -m venv .venv-flower
	.venv-flower/bin/pip --disable-pip-version-check install -q -c constraints.txt -e ".[flower,serve]" httpx hypothesis pytest
	OMP_NUM_THREADS=1 .venv-flower/bin/python -m pytest tests/cli
	OMP_NUM_THREADS=1 .venv-flower/bin/python -m pytest -m "not browser" tests/scale/test_flower.py tests/scale/test_flower_processes.py

test: lint  ## lint and the fast tests, on all cores
	$(PYTEST)

test-full: lint  ## the slow and statistical tests too
	CUVEE_RANDOM=1 $(PYTEST) -m "not browser"

test-anywhere: setup  ## the numeric tests as other processors, libraries and threads would run them
	$(BIN)/python tests/anywhere.py $(SETTINGS)

test-browser: setup  ## the report in Chromium
	.ci/browser
	$(BIN)/python -m pytest -m browser tests/browser

test-fuzz: setup  ## a server asked by Schemathesis for half an hour
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz.py

docs: setup  ## write the generated parts of pages again: API, options, methods, outputs, verdicts
	$(BIN)/python docs/make_api.py
	$(BIN)/python docs/make_maps.py
	$(BIN)/python docs/make_outputs.py
	$(BIN)/python docs/make_methods.py
	$(BIN)/python docs/make_paper.py
	test ! -f benchmarks/groups/results/main.parquet || $(BIN)/python -m benchmarks.groups.page
	$(BIN)/python -m cuvee.cli.reference docs/cli.md

gallery: build/gallery/index.md  ## the scripts of examples/gallery, run into pages with pictures

build/gallery/index.md: .venv/.installed docs/make_gallery.py $(wildcard examples/gallery/*.py) $(SOURCES)
	$(BIN)/python docs/make_gallery.py

figures: setup  ## every figure of the docs again: the paper's from its numbers, the others anew
	$(BIN)/python docs/make_figures.py
	$(BIN)/python docs/make_gallery.py

site: setup gallery  ## the docs as a site in build/site, links and spelling checked
	$(BIN)/codespell README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md docs/*.md src examples
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

lint: setup  ## style, types, and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

setup: .venv/.installed  ## install cuvee and what its tests need into .venv

.venv/.demo: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "cuvee needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) install -q -c constraints.txt -e ".[demo]"
	touch $@

.venv/.installed: .venv/.demo
	$(PIP) install -q -c constraints.txt -e ".[dev]"
	touch $@

clean:  ## remove .venv and caches
	rm -rf .venv .venv-flower build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
