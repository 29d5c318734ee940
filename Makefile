# Needs Python 3.11 or newer with venv, a C compiler, and Java 17 for the tests' Java clients.
# Everything else is brought by `make` itself into .venv and build/.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/sh

PYTHON ?= $(shell for python in python3.11 python3 python3.12 python3.13; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
BIN := .venv/bin
INSTALLED := .venv/.installed
BUILT := .venv/.built

.PHONY: help
help: ## Say what there is.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(INSTALLED): requirements.lock
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: install it, or say make PYTHON=/path/to/python" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@

# The package itself, in place; the compiled encoder is left out where there is no C compiler.
$(BUILT): $(INSTALLED) setup.py pyproject.toml $(wildcard capture/envelope/*.pyx capture/envelope/*.pxi capture/envelope/*.pxd)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $@

.PHONY: install
install: $(BUILT) ## Make .venv with everything in it, the compiled encoder too.

.PHONY: demo
demo: $(BUILT) ## Show it on an embedded PostgreSQL; ONCE=1 proves it against SQL and exits.
	$(BIN)/tidegate demo $(if $(ONCE),--once)

.PHONY: test
test: $(BUILT) ## Run the whole test suite.
	$(BIN)/python -m tests.support.jars
	$(BIN)/python -m pytest -m "not soak" $(ARGS)

.PHONY: check
check: $(BUILT) ## Lint, check types and import rules.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: bench
bench: $(BUILT) ## Measure against reference loops; writes build/bench.jsonl.
	$(BIN)/python -m tests.bench.run $(ARGS)

.PHONY: soak
soak: $(BUILT) ## Run the long tests.
	$(BIN)/python -m pytest -m soak --timeout 0 $(ARGS)

COMPILE := $(BIN)/pip-compile --quiet --generate-hashes --strip-extras --no-header --unsafe-package tidegate \
	--no-emit-index-url --no-emit-trusted-host --no-emit-find-links

.PHONY: lock
lock: $(INSTALLED) ## Resolve the dependencies of pyproject.toml anew into the two lock files.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check pip-tools
	$(COMPILE) --upgrade --all-extras --output-file build/all.lock pyproject.toml
	{ echo '# Every package of the project and all its extras, pinned by hash. Made by `make lock`.'; \
		sed '/^# WARNING: The following packages were not pinned/,$$d' build/all.lock; } > requirements.lock
	$(COMPILE) --upgrade --no-annotate --constraint requirements.lock --output-file build/runtime.lock pyproject.toml
	{ echo '# What an installation without extras needs, as in requirements.lock. Made by `make lock`.'; \
		cat build/runtime.lock; } > requirements-runtime.lock

.PHONY: clean
clean: ## Remove everything that make made; change logs (tidegate-data) stay.
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -f capture/envelope/*.so capture/envelope/*.c
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
