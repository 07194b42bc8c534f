# make attack   set up and run the main job
# make test     set up and run the whole gate: format, lint, types, tests
# make flower   the environment with Flower, in which tests of recording run; without an index they are skipped
# make test-steps   tests of client steps with PyTorch, in an environment of their own
# make test-pyterrier   the program for PyTerrier of docs/ranker.md, in an environment of its own
# make bench    measure speed and memory; make bench-papers: the papers' own runs; make bench-table: BENCHMARKS.md
# make bench-audit   what audits find of a true epsilon beside the best possible, and of broken mechanisms
# make results  run what results/ does not hold yet, and write docs/results.md
# make docs     build the documentation site into build/docs
# make constraints   write the newest versions of all packages of the gate to constraints.txt
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.installed
STAMP := $(VENV)/.installed-tests
DOCS := $(VENV)/.docs
TYPES := build/types
FLOWER := .venv-flower
TORCH := .venv-torch
TERRIER := .venv-pyterrier
WITH_FLOWER := $(FLOWER)/.installed
EPS ?= 1.2

# The versions that the gate passed with, since bytes of runs depend on them; an index may lack one of them.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --no-compile
install = $(PIP_INSTALL) --constraint constraints.txt --editable "$(1)" || { \
	echo "constraints.txt: pip cannot install these versions here; installing the newest instead" >&2; \
	$(PIP_INSTALL) --editable "$(1)"; }

# pip compiles no modules here, so Python has to keep what it compiles: else each process would compile all again.
unexport PYTHONDONTWRITEBYTECODE

# The matrices of the tests are small: several BLAS threads would only wait for each other.
tests test-slow: export OPENBLAS_NUM_THREADS := 1
tests test-slow: export OMP_NUM_THREADS := 1
# Threads of a kernel that spin while they wait would take the core from the tests beside them.
tests test-slow: export OMP_WAIT_POLICY := passive

.PHONY: attack test tests test-slow test-steps test-pyterrier flower bench bench-papers bench-table bench-audit results docs \
	constraints lint types format clean

attack: $(RUNTIME)
	$(BIN)/foltr-audit attack --method olsr --eps $(EPS)

# The two environments are made beside each other. Types and lint take a core for a minute, while the tests go
# on beside them.
test:
	$(MAKE) --no-print-directory --jobs 2 $(STAMP) flower
	$(MAKE) --no-print-directory --jobs 2 lint tests

# The workers of pytest start together, and each would compile the kernels that most tests need. Each would also
# rewrite every assert of every file, which takes a new checkout longer than all imports: only asserts of tests
# that fail are, which run once more and show their values.
tests: $(STAMP)
	$(BIN)/foltr-audit attack --method olsr --eps $(EPS) --quiet >/dev/null 2>&1
	$(BIN)/python -m pytest --assert=plain --numprocesses auto --maxprocesses 4 --dist loadfile || \
		{ $(BIN)/python -m pytest --last-failed --last-failed-no-failures none --numprocesses 0; exit 1; }

test-slow: $(STAMP) flower
	$(BIN)/python -m pytest -m slow

# Flower's dependencies conflict with those of foltr-audit, so that it has an environment of its own.
flower:
	@test -f $(WITH_FLOWER) || $(MAKE) --no-print-directory $(WITH_FLOWER) || \
		echo "no environment with Flower: its tests are skipped" >&2

$(WITH_FLOWER):
	test -x $(FLOWER)/bin/python || $(or $(shell command -v $(PYTHON)),python3) -m venv $(FLOWER)
	$(FLOWER)/bin/python -m pip install --quiet --no-compile "flwr>=1.41,<1.42"
	touch $@

# PyTorch is large and only client steps use it, so that their tests have an environment of their own.
test-steps:
	test -x $(TORCH)/bin/python || $(or $(shell command -v $(PYTHON)),python3) -m venv $(TORCH)
	$(TORCH)/bin/python -m pip install --quiet --no-compile -e '.[test,torch]'
	$(TORCH)/bin/python -m pytest tests/core/test_torch_steps.py

# PyTerrier is large and only one page uses it, so that it has an environment of its own.
test-pyterrier:
	test -x $(TERRIER)/bin/python || $(or $(shell command -v $(PYTHON)),python3) -m venv $(TERRIER)
	$(TERRIER)/bin/python -m pip install --quiet --no-compile -e . python-terrier pytest hypothesis
	$(TERRIER)/bin/python -m pytest tests/peers/test_pyterrier.py

bench: $(STAMP)
	$(BIN)/python -m benchmarks --json build/bench.json --picture build/growth.svg

bench-papers: $(STAMP)
	$(BIN)/python -m benchmarks --only papers --json build/bench-papers.json

bench-table: $(STAMP)
	$(BIN)/python -m benchmarks --read build/bench.json build/bench-papers.json --markdown BENCHMARKS.md \
		--picture docs/static/growth.svg

bench-audit: $(STAMP)
	$(BIN)/python -m benchmarks.audit_power --markdown build/audit-power.md
	$(BIN)/python -m benchmarks.audit_faults --markdown build/audit-faults.md
	$(BIN)/python -m benchmarks.function_audits

results: $(STAMP)
	$(BIN)/python -m benchmarks.results

docs: $(DOCS)
	$(BIN)/python -m tests.rooms_picture
	$(BIN)/python -m tests.threat_model_page
	$(BIN)/python -m tests.published_schemas
	$(BIN)/python -m sphinx -E -W -n --keep-going -q -b html docs build/docs

constraints: NEW := build/constraints
constraints:
	rm -rf $(NEW) && $(PYTHON) -m venv $(NEW)
	$(NEW)/bin/python -m pip install --quiet --no-compile --editable ".[test]"
	{ sed '/^#/!d' constraints.txt && $(NEW)/bin/python -m pip list --format freeze --exclude-editable \
		--exclude pip --exclude setuptools; } >$(NEW)/constraints.txt
	mv $(NEW)/constraints.txt . && rm -rf $(NEW)

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(MAKE) --no-print-directory types

# mypy does not read the package-dir of setuptools: it sees the packages as they are installed, in a folder of links.
types: $(STAMP)
	@rm -rf $(TYPES) && mkdir -p $(TYPES)/foltr_audit
	@ln -s $(CURDIR)/foltr_audit/* $(addprefix $(CURDIR)/,attacks defenses scenarios studies) $(TYPES)/foltr_audit
	@ln -s $(CURDIR)/recorder/foltr_audit_recorder $(TYPES)/foltr_audit/recorder
	@ln -s $(CURDIR)/tests $(CURDIR)/benchmarks $(TYPES)
	cd $(TYPES) && $(CURDIR)/$(BIN)/mypy --config-file $(CURDIR)/pyproject.toml --cache-dir $(CURDIR)/.mypy_cache

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(BIN)/python:
	@echo "making an environment in $(VENV) ..." >&2
	@$(or $(shell command -v $(PYTHON)),python3) -m venv $(VENV)

# Who only attacks needs no tools of the tests, which are half as large again.
$(RUNTIME): pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing foltr-audit and the libraries that it runs with (about 730 MB) ..." >&2
	@$(call install,.)
	@touch $@

$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing foltr-audit and the tools of its tests (about 1.1 GB) ..." >&2
	@$(call install,.[test])
	@touch $(RUNTIME) $@

$(DOCS): $(STAMP)
	$(PIP_INSTALL) --editable ".[docs]"
	touch $@

clean:
	rm -rf $(VENV) $(FLOWER) $(TORCH) $(TERRIER) build docs/generated dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
