# Everything sets itself up: a bare machine needs make and Python 3.11 or newer.
# `make` alone lists the targets.

# Bytecode is kept even where the environment forbids it: the tests start hundreds of interpreters.
export PYTHONDONTWRITEBYTECODE :=

PYTHON ?= python3
# A Python named by hand has an environment of its own: `make test PYTHON=python3.13` is in .venv-3.13.
ifeq ($(origin PYTHON),command line)
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
VENV := .venv-$(VERSION)
else
VENV := .venv
endif
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
LIBRARIES := $(VENV)/.libraries
STAMP := $(VENV)/.installed
RIGS_VENV := .venv-rigs
RIGS_STAMP := $(RIGS_VENV)/.libraries
BENCH_VENV := .venv-bench
BENCH_STAMP := $(BENCH_VENV)/.installed
SDK_VENV := .venv-sdk
SDK_STAMP := $(SDK_VENV)/.installed
FRAMEWORKS_VENV := .venv-frameworks
FRAMEWORKS_STAMP := $(FRAMEWORKS_VENV)/.installed
TASKS_VENV := .venv-cloudtasks
TASKS_STAMP := $(TASKS_VENV)/.installed
BROWSER_VENV := .venv-browser
BROWSER_STAMP := $(BROWSER_VENV)/.installed
DOCS_VENV := .venv-docs
DOCS_STAMP := $(DOCS_VENV)/.installed
PYTEST_ARGS ?=
COMPILE_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo test test-sdk test-cloudtasks test-frameworks test-browser tour vendor check fmt bench rigs rigs-short requirements pages docs build clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Rebuilt from scratch when the requirements change, so that nothing lingers.
$(LIBRARIES): requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Redrive needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." \
			"Name another one: make test PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(PIP) install --require-hashes -r requirements/dev.txt
	@touch $@

# Without isolation, because an isolated build would fetch its own, unpinned backend.
$(STAMP): $(LIBRARIES) pyproject.toml
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(STAMP) ## Watch jobs fail, wait, succeed and be redriven
	$(BIN)/redrive demo

test: $(STAMP) ## Run every test (some: PYTEST_ARGS="-k name"; elsewhere: PYTHON=python3.13)
	@$(BIN)/python tools/python_version.py $(VERSION)
	$(BIN)/python -m pytest -n 6 --dist loadgroup --durations=10 $(PYTEST_ARGS)

# Every client library at once is a gigabyte, so they live apart from what all tests need.
$(SDK_STAMP): requirements/sdk.txt
	$(PYTHON) -m venv --clear $(SDK_VENV)
	$(SDK_VENV)/bin/python -m pip --quiet --disable-pip-version-check install \
		--require-hashes -r requirements/sdk.txt
	$(SDK_VENV)/bin/python -m pip --quiet --disable-pip-version-check install \
		--no-deps --no-build-isolation --editable .
	@touch $@

# The emulator of Cloud Tasks pins an old protobuf. Without the dependencies, which the file names
# all: the pip of Python 3.11 loses the pin of a library that another asks for with an extra.
$(TASKS_STAMP): requirements/cloudtasks.txt
	$(PYTHON) -m venv --clear $(TASKS_VENV)
	$(TASKS_VENV)/bin/python -m pip --quiet --disable-pip-version-check install \
		--no-deps --require-hashes -r requirements/cloudtasks.txt
	$(TASKS_VENV)/bin/python -m pip --quiet --disable-pip-version-check install \
		--no-deps --no-build-isolation --editable .
	@touch $@

test-cloudtasks: $(TASKS_STAMP) ## Run against an emulator of Cloud Tasks; installs it
	$(TASKS_VENV)/bin/python -m pytest -W ignore tests_cloudtasks $(PYTEST_ARGS)

test-sdk: $(SDK_STAMP) test-cloudtasks ## Judge real errors of real client libraries; installs these
	$(SDK_VENV)/bin/python -m pytest -n 2 -W ignore tests_sdk $(PYTEST_ARGS)

# Drivers and web frameworks, so that `make test` needs none of them.
$(FRAMEWORKS_STAMP): requirements/frameworks.txt
	$(PYTHON) -m venv --clear $(FRAMEWORKS_VENV)
	$(FRAMEWORKS_VENV)/bin/python -m pip --quiet --disable-pip-version-check install \
		--require-hashes -r requirements/frameworks.txt
	$(FRAMEWORKS_VENV)/bin/python -m pip --quiet --disable-pip-version-check install \
		--no-deps --no-build-isolation --editable .
	@touch $@

test-frameworks: $(FRAMEWORKS_STAMP) ## Test with real drivers and web frameworks; installs these
	$(FRAMEWORKS_VENV)/bin/python -m pytest -n 2 --dist loadfile tests_frameworks $(PYTEST_ARGS)

# Playwright drives a Chromium that is there already, and axe-core judges the pages.
$(BROWSER_STAMP): requirements/browser.txt tools/vendor.py
	$(PYTHON) -m venv --clear $(BROWSER_VENV)
	$(BROWSER_VENV)/bin/python -m pip --quiet --disable-pip-version-check install \
		--require-hashes -r requirements/browser.txt
	$(BROWSER_VENV)/bin/python -m pip --quiet --disable-pip-version-check install \
		--no-deps --no-build-isolation --editable .
	$(PYTHON) tools/vendor.py --axe $(BROWSER_VENV)/axe.min.js
	@touch $@

test-browser: $(BROWSER_STAMP) ## Try the console in a real browser; installs Chromium as root on Debian
	@command -v chromium > /dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null && \
		apt-get update -qq && apt-get install -y -qq chromium fonts-noto-cjk > /dev/null; } || { \
		echo "make test-browser needs Chromium:" \
			"apt-get update && apt-get install -y chromium fonts-noto-cjk" >&2; exit 1; }
	$(BROWSER_VENV)/bin/python -m pytest tests_browser $(PYTEST_ARGS)

tour: $(BROWSER_STAMP) ## Take the pictures of the console anew, from `redrive demo --web`
	$(BROWSER_VENV)/bin/python docs/images/tour.py

vendor: ## Fetch the console's JavaScript libraries anew, as tools/vendor.py pins them
	$(PYTHON) tools/vendor.py

check: $(STAMP) ## Lint, formatting, types (mypy and pyright), layers and the line budget
	@failed=; \
	run() { echo "== $$*"; "$(BIN)/$$@" || failed="$$failed $$1"; }; \
	run ruff check; \
	run ruff format --check; \
	run mypy; \
	run pyright --pythonpath $(BIN)/python; \
	run lint-imports; \
	run python tools/line_budget.py; \
	if [ -n "$$failed" ]; then echo "Failed:$$failed" >&2; exit 1; fi

fmt: $(STAMP) ## Format the code and fix what can be fixed safely
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

# The peers that the benchmark compares with, and their many libraries, away from the tests.
$(BENCH_STAMP): requirements/bench.txt
	$(PYTHON) -m venv --clear $(BENCH_VENV)
	$(BENCH_VENV)/bin/python -m pip --quiet --disable-pip-version-check install \
		--require-hashes -r requirements/bench.txt
	$(BENCH_VENV)/bin/python -m pip --quiet --disable-pip-version-check install \
		--no-deps --no-build-isolation --editable .
	@touch $@

bench: $(BENCH_STAMP) ## Measure beside raw limits and peers (some: BENCH="--quick import")
	$(BENCH_VENV)/bin/python bench/run.py $(BENCH)

# What only rigs need, such as a file system in Python, beside the environment of the tests.
$(RIGS_STAMP): requirements/rigs.txt
	$(PYTHON) -m venv --clear $(RIGS_VENV)
	$(RIGS_VENV)/bin/python -m pip --quiet --disable-pip-version-check install \
		--require-hashes -r requirements/rigs.txt
	@touch $@

rigs: $(STAMP) $(RIGS_STAMP) ## Run the failure rigs in full (some of them: RIGS="kill cuts")
	$(BIN)/python rigs/run.py $(RIGS)

rigs-short: $(STAMP) $(RIGS_STAMP) ## Run the short forms of the rigs; installs what they need
	$(BIN)/python rigs/run.py --short $(RIGS)

# The options keep every registry and local folder out of the compiled file.
requirements: $(STAMP) ## Recompile requirements/*.txt (COMPILE_ARGS=--upgrade for newer versions)
	for one in dev rigs bench sdk cloudtasks frameworks browser docs; do \
		CUSTOM_COMPILE_COMMAND="make requirements" $(BIN)/pip-compile --quiet \
		--generate-hashes --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
		--strip-extras --allow-unsafe $(COMPILE_ARGS) \
		--output-file requirements/$$one.txt requirements/$$one.in || exit 1; done

pages: $(STAMP) ## Write the pages anew that are made from code and tests
	for one in delays states; do $(BIN)/python docs/reference/$$one.py || exit 1; done

# The site's builder, and what two of its pages import, away from the tests.
$(DOCS_STAMP): requirements/docs.txt
	$(PYTHON) -m venv --clear $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip --quiet --disable-pip-version-check install \
		--require-hashes -r requirements/docs.txt
	$(DOCS_VENV)/bin/python -m pip --quiet --disable-pip-version-check install \
		--no-deps --no-build-isolation --editable .
	@touch $@

docs: $(DOCS_STAMP) ## Build the site into site/, and run the pages that need Celery or FastAPI
	$(DOCS_VENV)/bin/python tests/kits/walkkit.py
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --quiet
	@echo "open site/index.html"

build: $(STAMP) ## Build the wheel and the source archive into dist/
	$(BIN)/python -m build --no-isolation

clean: ## Remove the environment, caches and built files
	rm -rf .venv .venv-3.* $(RIGS_VENV) $(BENCH_VENV) $(SDK_VENV) $(TASKS_VENV) $(FRAMEWORKS_VENV) $(BROWSER_VENV) $(DOCS_VENV) site build dist htmlcov .coverage .coverage.* .hypothesis
	rm -rf .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
