# fedpact: `make demo` and `make test` need only Python 3.11+ and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# The peers have an environment of their own.
BENCH_VENV ?= .venv-bench
BENCH_BIN := $(BENCH_VENV)/bin
TORCH_VENV ?= .venv-torch
TORCH_BIN := $(TORCH_VENV)/bin
OUT ?= out
# One BLAS thread: small matrices lose by more.
export OMP_NUM_THREADS = 1
export OPENBLAS_NUM_THREADS = 1
export MKL_NUM_THREADS = 1
# Tests start hundreds of processes, which read what the first one compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-slow test-install test-extras test-browser test-deploy test-flower-latest test-peers check format lint types docs bench bench-training does-it-pay clean

help:
	@echo "make demo       compare the mechanisms on five hospitals; report in $(OUT)/report.html"
	@echo "make test       run the tests"
	@echo "make test-slow  run the slow tests too, and all the random cases of the others"
	@echo "make test-install  install the wheel alone, without pinned versions, and start every command"
	@echo "make test-extras  the same with each optional part"
	@echo "make test-browser  run the explorer in Chromium"
	@echo "make test-deploy  run a Flower deployment on this machine, with TLS and keys"
	@echo "make test-flower-latest  the tests of Flower apps with the newest Flower they are known to pass with"
	@echo "make check      format, lint, types, tests, docs: what CI runs"
	@echo "make bench      benchmarks against peers; NAME=shapley runs one"
	@echo "make bench-training  training models against PyTorch and scikit-learn; the machine must be idle"
	@echo "make test-peers run the tests that need the peers"
	@echo "make docs       build the documentation in docs/_build/html"
	@echo "make format     reformat the code"

# The environment is made anew whenever what it should hold changes.
$(VENV)/.core: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fedpact needs Python 3.11 or later; say PYTHON=...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing fedpact into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	@echo "installing the tools of development into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

demo: $(VENV)/.core
	@mkdir -p $(OUT)
	@$(BIN)/fedpact compare hospitals --html $(OUT)/report.html -o $(OUT)/deal.json --force
	@$(BIN)/fedpact compare hospitals --html $(OUT)/clinic.html --member Clinic --force >/dev/null
	@echo
	@echo "Next: open $(OUT)/report.html in a browser, and $(OUT)/clinic.html, the page of one member."
	@echo "Anybody can check the deal again: $(BIN)/fedpact check hospitals $(OUT)/deal.json"
	@echo "fedpact is installed in $(VENV):"
	@echo "  $(BIN)/fedpact new federation.toml    writes a file for your own numbers"
	@echo "  source $(BIN)/activate                makes it plain 'fedpact' in this shell"
	@echo "  pip install .                            puts it into an environment of your own"

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -q -m "not slow and not browser"

test-slow: $(VENV)/.dev
	FEDPACT_ALL_CASES=1 $(BIN)/python -m pytest -n 2 --dist worksteal -q -m "not deploy and not browser"

# As `pip install .` does for a user: a new environment, no constraints, today's versions; the core, then every extra.
CLEAN_VENV := .venv-clean
EXTRAS := plot paper frame pilot sums signatures explore train flower
test-install:
	@$(PYTHON) -m venv --clear $(CLEAN_VENV)
	@rm -rf build
	@$(CLEAN_VENV)/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir $(CLEAN_VENV)/wheel .
	@$(CLEAN_VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(CLEAN_VENV)/wheel/fedpact-*.whl
	$(CLEAN_VENV)/bin/python tests/installed.py

test-extras: test-install
	@for extra in $(EXTRAS); do \
		$(PYTHON) -m venv --clear $(CLEAN_VENV)/extra || exit 1; \
		$(CLEAN_VENV)/extra/bin/python -m pip install --quiet --disable-pip-version-check "$$(ls $(CLEAN_VENV)/wheel/fedpact-*.whl)[$$extra]" || exit 1; \
		echo "with [$$extra]"; $(CLEAN_VENV)/extra/bin/python tests/installed.py $$extra || exit 1; \
	done

# Playwright is large, and brings no browser: Chromium is the system's. axe-core looks for what shuts people out.
AXE ?= 4.11.0
$(VENV)/.browser: $(VENV)/.dev
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[browser]"
	@npm install --silent --no-audit --no-fund --prefix $(VENV)/axe axe-core@$(AXE)
	@touch $@

test-browser: $(VENV)/.browser
	$(BIN)/python -m pytest -q tests/edges/test_explorer.py -m browser

# A SuperLink and SuperNodes as processes: they want the machine to themselves.
test-deploy: $(VENV)/.dev
	$(BIN)/python -m pytest -q -m deploy tests/edges

# The other end of the range of Flower that pyproject.toml names; the pins hold the first.
FLWR ?= 1.42.0
test-flower-latest: $(VENV)/.dev
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $(OUT)/flwr-$(FLWR) flwr==$(FLWR)
	PYTHONPATH=$(OUT)/flwr-$(FLWR) $(BIN)/python -m pytest -q -m "not slow" tests/unit/flower

check: $(VENV)/.dev lint types test-extras test docs

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.dev
	$(BIN)/mypy

docs: $(VENV)/.dev
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "documentation in docs/_build/html/index.html"

# pyDVL 0.10 declares NumPy below 2 and works with later ones: it goes in alone, and what it imports beside it. It calls
# pyDeprecate in ways that versions after 0.7 complain about.
$(BENCH_VENV)/.peers: pyproject.toml constraints.txt
	@$(PYTHON) -m venv --clear $(BENCH_VENV)
	@echo "installing fedpact and its peers into $(BENCH_VENV)"
	@$(BENCH_BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[browser,explore,peers]" \
		hypothesis pytest cloudpickle joblib more-itertools pandas psutil pyDeprecate scikit-learn tqdm
	@$(BENCH_BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps pyDVL
	@touch $@

test-peers: $(BENCH_VENV)/.peers
	$(BENCH_BIN)/python -m pytest -q tests/edges/test_peers.py

# `make bench NAME=shapley` runs one benchmark, NAME="shapley batch" two.
bench: test-peers
	$(BENCH_BIN)/python -m benchmarks $(NAME)

# PyTorch is large: only this benchmark installs it.
$(TORCH_VENV)/.peers: pyproject.toml constraints.txt
	@$(PYTHON) -m venv --clear $(TORCH_VENV)
	@echo "installing fedpact and PyTorch into $(TORCH_VENV)"
	@$(TORCH_BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[plot,train]" torch scikit-learn
	@touch $@

bench-training: $(TORCH_VENV)/.peers
	$(TORCH_BIN)/python -m benchmarks training

# The tables of docs/does-it-pay.md; HEART is a folder with UCI's heart disease files, fetched if it is not given.
does-it-pay: $(VENV)/.dev
	$(BIN)/python -m benchmarks.does_it_pay $(HEART)

clean:
	rm -rf $(VENV) .venv-* build dist $(OUT) docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info
