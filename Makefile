# Two commands do everything: `make demo` and `make test`. The environment is in .venv.
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 2
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt

.PHONY: demo test fuzz faults check format generate bench install clean

demo: .venv/installed
	$(BIN)/afgrl demo

# One thread per worker: two workers with two threads each would slow each other down on two cores. Threads of tests that
# need more sleep while they wait, since the other worker needs the core.
test: .venv/installed-test
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

# Mutated inputs of every format, from another seed each time; `make test` runs it for half a minute from seed 0.
fuzz: .venv/installed-test
	$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),600) --first $(or $(FIRST),$(shell date +%s))

# Every file operation of every command killed or failing, and more damage; `make test` runs a sample.
faults: .venv/installed-test
	AFGRL_FAULTS=all $(BIN)/python -m pytest -p no:xdist -s tests/faults

check: .venv/installed-check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/check_language.py

format: .venv/installed-check
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# For example: make bench OUT=results/bench-mine.json DATASETS=photo,cs
bench: .venv/installed
	$(BIN)/afgrl bench $(if $(OUT),--out $(OUT)) $(if $(DATASETS),--datasets $(DATASETS))

# Estimator signatures and docs/reference.md follow the settings and the command line.
generate: .venv/installed-check
	$(BIN)/python -m tools.generate_estimators
	$(BIN)/ruff format --quiet src/afgrl/estimators/generated.py
	$(BIN)/python -m tools.generate_reference

install: .venv/installed

# One stamp file per set of packages, so that a second `make` installs nothing.
.venv/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) -e .
	touch $@

.venv/installed-test: .venv/installed
	$(PIP) -e '.[test]'
	touch $@

.venv/installed-check: .venv/installed
	$(PIP) -e '.[check]'
	touch $@

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache
