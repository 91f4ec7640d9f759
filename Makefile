# Two commands do everything: `make demo` and `make test`. The environment lies in .venv.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt

.PHONY: demo test check format bench install clean

demo: .venv/installed
	$(BIN)/afgrl demo

test: .venv/installed-test
	$(BIN)/python -m pytest

check: .venv/installed-check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/installed-check
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# OUT keeps the figures, DATASETS takes some of the five: make bench OUT=results/bench-mine.json DATASETS=photo,cs
bench: .venv/installed
	$(BIN)/afgrl bench $(if $(OUT),--out $(OUT)) $(if $(DATASETS),--datasets $(DATASETS))

install: .venv/installed

# A stamp for each set of packages: the second `make` installs nothing.
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
