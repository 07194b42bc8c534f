# make attack   set up and run the main job
# make test     set up and run the whole gate: format, lint, types, tests
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
KERNELS := $(VENV)/.kernels
EPS ?= 1.2

.PHONY: attack test test-slow lint format clean

attack: $(STAMP) $(KERNELS)
	$(BIN)/foltr-audit attack --method olsr --eps $(EPS)

test: lint $(KERNELS)
	$(BIN)/python -m pytest

test-slow: $(STAMP) $(KERNELS)
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

# A cached kernel does not notice a change in a kernel of another file that it calls: forget them all.
$(KERNELS): $(STAMP) $(wildcard foltr_audit/kernels/*.py)
	rm -f foltr_audit/kernels/__pycache__/*.nb[ci]
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
