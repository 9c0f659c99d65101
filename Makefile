# `make demo` and `make test` set up all they need in .venv, from a fresh clone; the demo
# installs the core alone, the tests everything.
PYTHON ?= python3
BIN := .venv/bin
# two processes; one that has nothing left takes over tests that the other has not begun
IN_TWO := -n 2 --dist worksteal

.PHONY: demo test test-oldest quick lint fuzz tables docs benchmark dist audit clean

demo: .venv/core
	rm -rf affinerank-demo
	$(BIN)/affinerank demo

test: .venv/installed lint
	$(BIN)/python -m pytest $(IN_TWO)

# the same with the oldest versions that pyproject.toml allows
test-oldest:
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/pip install --quiet --disable-pip-version-check \
		-c constraints-oldest.txt -e ".[dev]"
	.venv-oldest/bin/python -m pytest -q $(IN_TWO)

# thousands of damaged files of every format, each read by a command (docs/robustness.md)
CASES ?= 20000
SEED ?= 0
fuzz: .venv/installed
	$(BIN)/python -m tests.fuzz --cases $(CASES) --seed $(SEED)

# what a change breaks first, in a minute and a half: no documentation, no browser
quick: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/python -m pytest -q $(IN_TWO) -m "not slow"

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# tables of README.md and docs/*.md, from the committed results
tables: .venv/installed
	$(BIN)/python docs/make_tables.py

# the documentation site, into site/; `.venv/bin/mkdocs serve` shows it while you write
docs: .venv/installed
	$(BIN)/mkdocs build --strict

# make benchmark NAME=letor, counting, estimation ... : a script in benchmarks/
NAME ?= letor
benchmark: .venv/installed
	$(BIN)/python benchmarks/$(NAME).py

# wheel and source archive: what is in them, what they say, and whether they import
dist: .venv/installed
	rm -rf dist
	$(BIN)/pip install --quiet --disable-pip-version-check build twine
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python benchmarks/dist.py dist

# known faults of the libraries that constraints.txt names
audit: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check pip-audit
	$(BIN)/pip-audit --strict --no-deps --disable-pip -r constraints.txt

PIP_INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

# what the demo, and most users, need: no torch
.venv/core: pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit('AffineRank needs Python 3.11 or newer') if sys.version_info < (3, 11) else None"
	$(PYTHON) -m venv .venv
	$(PIP_INSTALL) -e .
	touch $@

# everything that tests, networks and pages need
.venv/installed: .venv/core
	$(PIP_INSTALL) -e ".[dev]"
	touch $@

clean:
	rm -rf .venv .venv-oldest dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
