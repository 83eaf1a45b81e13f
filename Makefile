# The one door to Rekindle. `make help` lists what it opens.
#
# RUN_DIR (default .run) and PORT (default 8080) choose another place: `make up RUN_DIR=/tmp/two PORT=9090`.
# The linker is Rust's own choice: on x86_64 Linux that is the bundled lld, so nothing has to be installed for speed.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
RUN_DIR ?= .run
export CARGO

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
REKINDLE := $(TARGET_DIR)/local/rekindle
PROGRAMS := gateway worker-automation worker-delivery scheduler rekindle

# Not for the tests, which make up places of their own.
up down logs status demo: export RUN_DIR := $(RUN_DIR)
ifdef PORT
up: export PORT := $(PORT)
endif

.PHONY: help build release dashboard up down logs status demo check nightly test compose-test bench chaos mutations fuzz

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# What `make up` starts compiles faster (profile `local` in Cargo.toml); what is measured or deployed is a release build.
build:
	@.ci/build-dashboard --if-node
	$(CARGO) build --profile local --locked $(addprefix --bin ,$(PROGRAMS))

release:
	@.ci/build-dashboard --if-node
	$(CARGO) build --release --locked $(addprefix --bin ,$(PROGRAMS) bench)

dashboard: ## build the dashboard, which the gateway then embeds (installs Node if it is missing)
	@.ci/build-dashboard

up: build ## build, start everything on this machine, print address, keys and a first request
	@$(REKINDLE) up

down: ## stop what `make up` started; data stays in RUN_DIR
	@if [ -x $(REKINDLE) ]; then $(REKINDLE) down; \
	elif kill -0 $$(cut -d' ' -f1 $(RUN_DIR)/pids/*.pid 2>/dev/null) 2>/dev/null; then echo "Something may run in $(RUN_DIR), and rekindle is not built: run 'make build', then 'make down'." >&2; exit 1; \
	else echo "Nothing is built, so nothing is running."; fi

logs: ## follow the logs of all processes
	@if [ -x $(REKINDLE) ]; then $(REKINDLE) logs --follow; else echo "Nothing is built yet: run 'make up' first."; fi

status: ## show what is running, since when, and whether it is ready
	@if [ -x $(REKINDLE) ]; then $(REKINDLE) status || true; else echo "Nothing is built yet: run 'make up' first."; fi

demo: build ## replay a shop's day and verify that all counts match
	@$(REKINDLE) demo

check: ## run the fast checks: format, lints, pure tests
	$(CARGO) fmt --all --check
	@.ci/import-cycles
	@.ci/language
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@if $(CARGO) nextest --version >/dev/null 2>&1; \
	then $(CARGO) nextest run --workspace --lib --bins --locked; \
	else $(CARGO) test --workspace --lib --bins --locked --quiet; fi

bench: release ## measure the product on this machine, relative to ceilings (SCENARIO=single, batch, ...)
	@$(TARGET_DIR)/release/bench $(if $(QUICK),--quick) $(ARGS)

chaos: ## inject combined faults for ten minutes and check every guarantee (CHAOS_SEED, CHAOS_MINUTES, CHAOS_LOAD, RELEASE=1)
	$(CARGO) build --workspace --bins --locked $(if $(RELEASE),--release)
	@CHAOS_REPORTS=$${CHAOS_REPORTS:-$(TARGET_DIR)/chaos} $(TARGET_DIR)/$(if $(RELEASE),release,debug)/chaos

mutations: ## remove each safeguard in a copy and verify that its tests fail (MUTATION=name runs one)
	@e2e/mutations/run $(MUTATION)

nightly: ## run the long tests: fuzzing, mutations, and every chaos variant
	@.ci/nightly

test: ## run all tests on real servers; installs what it needs and ends with a summary
	@.ci/test

compose-test: ## build the images and test docker-compose.yml under load; needs root and Docker
	@.ci/compose-test

fuzz: ## fuzz the parsers: FUZZ_SECONDS (60) or FUZZ_RUNS for each target, or for FUZZ_TARGET alone
	@fuzz/run
