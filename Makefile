# `make demo` and `make test` need Python 3.11+ and make, nothing else: they set up .venv by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test quick lint format bench bench-list dist release-check campaign campaign-merge explore fuzz soak matrix merge-kill service-kill docs pins clean

help: ## Show this list.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# An explicit PYTHON must not be passed over in silence because .venv was made by another.
ifeq ($(origin PYTHON),command line)
  ifneq ($(wildcard $(VENV)/made-by),)
    ifneq ($(shell cat $(VENV)/made-by),$(PYTHON))
      $(error .venv was made by $(shell cat $(VENV)/made-by), not by $(PYTHON): run `make clean` first)
    endif
  endif
endif

$(VENV)/ready: requirements/dev.txt pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "make: there is no $(PYTHON); name another: make PYTHON=python3.12 ..." >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "make: $(PYTHON) is older than 3.11; name a newer one: make PYTHON=python3.12 ..." >&2; exit 2; }
	@echo "Setting up $(VENV), once: Spark and what else is needed, 1.7 GB on disk, a minute or two." >&2
	$(PYTHON) -m venv $(VENV)
	@echo $(PYTHON) > $(VENV)/made-by
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/ready-bench: $(VENV)/ready requirements/bench.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bench.txt
	@touch $@

demo: $(VENV)/ready ## A checkout fails in a shop of six processes: see what led to it. ARGS=--keep for the live page.
	$(BIN)/beforehand demo $(ARGS)

# Tests start some hundred JVMs; with an archive of Spark's classes each has a third less to do.
CLASSES := $(abspath $(VENV))/spark-classes.jsa
$(CLASSES): $(VENV)/ready
	@there=$$(mktemp -d) && $(BIN)/beforehand simulate fifo --to $$there/events.jsonl >$$there/log \
	  && BEFOREHAND_JAVA_CLASSES=$@ $(BIN)/beforehand analyze $$there/events.jsonl --to $$there/history >$$there/log 2>&1; \
	  rm -rf $$there

test: lint $(CLASSES) ## Check everything: lint, types, docs and all tests.
	BEFOREHAND_JAVA_CLASSES=$(CLASSES) $(BIN)/pytest

quick: lint ## Lint and tests without those marked slow: what starts programs or computes for long.
	BEFOREHAND_TESTS=quick $(BIN)/pytest -m "not slow"

lint: $(VENV)/ready ## Check format, lint rules and types.
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy --no-error-summary

format: $(VENV)/ready ## Format the code.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix --quiet .

PARTS ?=
bench: $(VENV)/ready-bench ## Measure everything, or PARTS="rpc groups", and write benchmarks/RESULTS.md (hours; see bench-list).
	$(BIN)/python -m benchmarks $(PARTS)

bench-list: $(VENV)/ready ## Show the parts of the benchmarks and how long each takes; make bench-PART runs one.
	@$(BIN)/python -m benchmarks --list

bench-%: $(VENV)/ready-bench
	$(BIN)/python -m benchmarks $*

FUZZ_SECONDS ?= 900
fuzz: $(VENV)/ready ## Attack every decoder and reader for FUZZ_SECONDS (a quarter of an hour).
	$(BIN)/python -m fuzz --seconds $(FUZZ_SECONDS)

SOAK_SECONDS ?= 900
soak: $(VENV)/ready ## Run members, mergers and the service together under faults for SOAK_SECONDS, and judge (a quarter of an hour).
	$(BIN)/python -m soak --seconds $(SOAK_SECONDS)

SEEDS ?= 100000
campaign: $(VENV)/ready ## Simulate SEEDS seeds over all protocols, going on where the last campaign stopped.
	$(BIN)/python -m beforehand.sim.campaign --seeds $(SEEDS) --to campaign

MERGE_SEEDS ?= 2000
campaign-merge: $(VENV)/ready ## Publishers and mergers under faults, MERGE_SEEDS seeds of each kind; goes on where it stopped.
	$(BIN)/python -m beforehand.sim.stabilizing --seeds $(MERGE_SEEDS) --to campaign/merge

EXPLORE_WORKERS ?= 2
explore: $(VENV)/ready ## Every interleaving of three processes and up to four messages (days for some protocols; goes on).
	$(BIN)/python -m beforehand.sim.explorer --workers $(EXPLORE_WORKERS) --to exploration

matrix: $(VENV)/ready ## Write the table of which protocol keeps which order, with counterexamples, into docs/.
	$(BIN)/python -m beforehand.sim.explorer --page docs/reference/ordering/property-matrix.md

merge-kill: $(VENV)/ready ## Kill mergers on Spark ten times inside micro-batches: nothing is lost, repeated or reordered.
	MERGE_KILLS=10 $(BIN)/pytest tests/pipeline/test_merge_killed.py

service-kill: $(VENV)/ready ## Kill the event service fifty times while events are reported: nothing acknowledged is lost or there twice, subscriptions resume.
	BEFOREHAND_KILLS=50 $(BIN)/pytest --timeout 3600 tests/service/test_http_killed.py tests/service/test_service_killed.py \
	  tests/service/test_paper_query.py

docs: $(VENV)/ready ## Draw the diagrams of docs/ again and check every link and example.
	$(BIN)/python docs/build.py

dist: $(VENV)/ready ## Build the wheel and the sdist into dist/, and check what is in them.
	$(BIN)/python -m release build

release-check: $(VENV)/ready ## Install the wheel with each extra alone and try every command there (ten minutes, 3 GB of disk).
	$(BIN)/python -m release check

pins: ## Choose the newest versions and write requirements/*.txt with hashes (slow).
	$(PYTHON) -m venv $(VENV)-pins
	$(VENV)-pins/bin/pip install --quiet pip-tools
	for name in dev bench; do $(VENV)-pins/bin/pip-compile --quiet --upgrade --generate-hashes --allow-unsafe \
	  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options --no-header --strip-extras \
	  --output-file requirements/$$name.txt requirements/$$name.in || exit 1; done

clean: ## Remove what the commands above made.
	rm -rf $(VENV) $(VENV)-pins .mypy_cache .pytest_cache .ruff_cache .hypothesis dist demo-output
	find src tests benchmarks docs -name __pycache__ -prune -exec rm -rf {} +
