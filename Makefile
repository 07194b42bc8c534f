# make attack   set up and run the main job
# make test     set up and run the whole gate: format, lint, types, tests
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
EPS ?= 1.2

.PHONY: attack test test-slow lint format clean

attack: $(STAMP)
	$(BIN)/foltr-audit attack --method olsr --eps $(EPS)

test: lint
	$(BIN)/python -m pytest

test-slow: $(STAMP)
	$(BIN)/python -m pytest -m slow

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(or $(shell command -v $(PYTHON)),python3) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
