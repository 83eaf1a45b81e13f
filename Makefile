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

dashboard: ## build the dashboard, which the gateway then holds (installs Node where it is missing)
	@.ci/build-dashboard

up: build ## build, start everything on this machine, print address, keys and a first request
	@$(REKINDLE) up

down: ## stop exactly what `make up` started; the data stays in RUN_DIR
	@if [ -x $(REKINDLE) ]; then $(REKINDLE) down; \
	elif kill -0 $$(cut -d' ' -f1 $(RUN_DIR)/pids/*.pid 2>/dev/null) 2>/dev/null; then echo "Something may run in $(RUN_DIR), and rekindle is not built: run 'make build', then 'make down'." >&2; exit 1; \
	else echo "Nothing is built, so nothing is running."; fi

logs: ## follow the logs of all processes
	@if [ -x $(REKINDLE) ]; then $(REKINDLE) logs --follow; else echo "Nothing is built yet: run 'make up' first."; fi

status: ## what is running, since when, and whether it is ready
	@if [ -x $(REKINDLE) ]; then $(REKINDLE) status || true; else echo "Nothing is built yet: run 'make up' first."; fi

demo: build ## replay a shop's day against the running system and balance its books
	@$(REKINDLE) demo

check: ## the fast part of the tests: format, lints, pure tests
	$(CARGO) fmt --all --check
	@.ci/import-cycles
	@.ci/language
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@if $(CARGO) nextest --version >/dev/null 2>&1; \
	then $(CARGO) nextest run --workspace --lib --bins --locked; \
	else $(CARGO) test --workspace --lib --bins --locked --quiet; fi

bench: release ## measure the product on this machine, relative to ceilings (SCENARIO=single, batch, ...)
	@$(TARGET_DIR)/release/bench $(if $(QUICK),--quick) $(ARGS)

chaos: ## ten minutes of everything that goes wrong, by a seed (CHAOS_SEED, CHAOS_MINUTES, CHAOS_LOAD, RELEASE=1)
	$(CARGO) build --workspace --bins --locked $(if $(RELEASE),--release)
	@CHAOS_REPORTS=$${CHAOS_REPORTS:-$(TARGET_DIR)/chaos} $(TARGET_DIR)/$(if $(RELEASE),release,debug)/chaos

mutations: ## take each remedy out of a copy and see a test notice it (MUTATION=name for one)
	@e2e/mutations/run $(MUTATION)

nightly: ## what takes longer than tests may: the chaos run in each of its shapes, fuzzing, mutations
	@.ci/nightly

test: ## all tests, on real servers; installs what it needs and ends with a summary
	@.ci/test

compose-test: ## build the images and try docker-compose.yml out under load; needs root and Docker
	@.ci/compose-test

fuzz: ## look for input that breaks something: FUZZ_SECONDS (60) or FUZZ_RUNS for each target, or for FUZZ_TARGET alone
	@fuzz/run
