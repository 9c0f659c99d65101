# `make demo` and `make test` set up all they need in .venv, from a fresh clone.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test quick lint docs benchmark clean

demo: .venv/installed
	$(BIN)/affinerank demo

test: .venv/installed lint
	$(BIN)/python -m pytest

# what a change breaks first, in a minute and a half: no documentation, no browser
quick: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/python -m pytest -q -m "not slow"

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# the documentation site, into site/; `.venv/bin/mkdocs serve` shows it while you write
docs: .venv/installed
	$(BIN)/mkdocs build --strict

# make benchmark NAME=letor, counting, estimation ... : a script in benchmarks/
NAME ?= letor
benchmark: .venv/installed
	$(BIN)/python benchmarks/$(NAME).py

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit('AffineRank needs Python 3.11 or newer') if sys.version_info < (3, 11) else None"
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
