# `make help` lists the targets. `make test` proves the project; .ci/run calls it.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

GO ?= go
TOOL := $(GO) tool -modfile=tools.mod

# Packages whose tests start processes of their own (a Cassandra, servers, a browser). They run one at a time, after
# all others, and not a second time under the race detector. `make race-cassandra` does that for the Cassandra store.
HEAVY := /(cmd|bench|internal/bench|system_test|client/web|store/cassandra)(/|$$)
quick = $$($(GO) list ./... | grep -vE '$(HEAVY)')
heavy = $$($(GO) list ./... | grep -E '$(HEAVY)')
# Not under the race detector: protoactor sets gRPC's logger at every start of a node, a race of its own among several in one process.
raced = $$($(GO) list ./... | grep -vE '$(HEAVY)|/placed/cluster$$')

# What `make test` does, cheapest first.
STEPS := deps check cross test-go sim test-race fuzz-short
# It is to end within TEST_MINUTES on two cores and says so when it does not; over TEST_MINUTES_MAX it hangs, and is ended.
TEST_MINUTES := 25
TEST_MINUTES_MAX := 60

STORM ?= --duration 10s

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F '\t' '{ printf "%-14s %s\n", $$1, $$2 }'

.PHONY: build
build: ## build bin/placed and bin/bench
	$(GO) build -o bin/ ./cmd/... ./bench

.PHONY: cross
cross: ## build for linux, darwin and windows, and throw it away
	for os in linux darwin windows; do echo "build for $$os"; CGO_ENABLED=0 GOOS=$$os $(GO) build -o /dev/null ./...; done

.PHONY: test
test: ## everything that proves the project, installing what that needs
	@timeout -k 30 $(TEST_MINUTES_MAX)m $(MAKE) test-steps || { code=$$?; \
		if [ $$code -eq 124 ]; then echo 'make test: over $(TEST_MINUTES_MAX) minutes'; fi; exit $$code; }

.PHONY: test-steps
test-steps:
	@took=(); for step in $(STEPS); do \
		printf '\n=== %s\n' "$$step"; at=$$SECONDS; $(MAKE) "$$step"; took+=("$$step $$((SECONDS - at)) s"); \
	done; printf '\n=== all passed in %d s:%s\n' "$$SECONDS" "$$(printf ' %s;' "$${took[@]}")"; \
	if [ $$SECONDS -gt $$(($(TEST_MINUTES) * 60)) ]; then echo 'that is over $(TEST_MINUTES) minutes: too slow for two cores'; fi

.PHONY: check
check: ## formatting, vet, staticcheck, exhaustive sum types, modern Go, tidy go.mod, the page's types
	@unformatted=$$(find . -name '*.go' -not -path '*/node_modules/*' -not -path './.cache/*' -print0 | xargs -0 $(TOOL) gofumpt -l); \
		if [ -n "$$unformatted" ]; then printf 'not formatted (gofumpt -w):\n%s\n' "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(TOOL) staticcheck ./...
	$(TOOL) go-check-sumtype ./...
	$(GO) fix -diff ./...
	$(GO) mod tidy -diff
	@if [ ! -d client/web/node_modules ]; then echo 'the page cannot be checked yet: run make deps'; exit 1; fi
	npm --prefix client/web run check

.PHONY: test-go
test-go: ## all Go tests, those that need a Cassandra or a browser last
	$(GO) test -count=1 $(quick)
	$(GO) test -count=1 -p 1 -timeout 15m $(heavy)

.PHONY: test-race
test-race: ## all tests that run our code in their own process, under the race detector
	$(GO) test -race -count=1 -timeout 15m $(raced)

.PHONY: race-cassandra
race-cassandra: ## the tests of the Cassandra store under the race detector
	$(GO) test -race -count=1 -timeout 15m ./store/cassandra

.PHONY: fuzz-short
fuzz-short: ## every fuzz target for FUZZTIME (5s)
	.ci/fuzz-short

.PHONY: sim
sim: ## the simulation over PLACED_SIM_SEEDS (20000) seeds
	.ci/sim

.PHONY: cassandra
cassandra: ## run a real Cassandra on 127.0.0.1:9042 until Ctrl-C; its data stays in .cache/cassandra
	@$(GO) build -o bin/cassandra ./store/cassandra/cassandratest/run
	@exec bin/cassandra -dir .cache/cassandra -port 9042

.PHONY: cluster
cluster: build ## three nodes and a Cassandra on this machine until Ctrl-C; CLUSTER='--cooldown 10s ...' for flags of the nodes
	@$(GO) build -o bin/cassandra ./store/cassandra/cassandratest/run
	@exec .ci/cluster $(CLUSTER)

.PHONY: bench-storm
bench-storm: build ## a placement storm against a server of its own; STORM='--duration 10s ...'
	.ci/bench-storm $(STORM)

.PHONY: web
web: ## build the page into client/web/dist
	$(GO) generate ./client/web

.PHONY: web-figures
web-figures: ## measure the page in a slowed-down Chromium
	@PLACED_WEB_FIGURES=1 $(GO) test -count=1 -v -run TestFigures ./client/web/e2e | grep FIGURE | sed 's/.*FIGURE //'

.PHONY: screenshots
screenshots: ## take the screenshots of README.md
	PLACED_SCREENSHOTS=$(CURDIR)/docs go test -count=1 -run TestScreenshots ./client/web/e2e

.PHONY: vuln
vuln: ## look for known vulnerabilities; VULNDB=file://... for a copy of the Go vulnerability database
	$(TOOL) govulncheck $(if $(VULNDB),-db $(VULNDB)) ./...

.PHONY: deps
deps: ## install what the tests need: JDK 17, Maven, Chromium, Node.js, nginx, Varnish, modules, Cassandra's jars
	.ci/deps

.PHONY: clean
clean: ## remove what was built, and .cache with the data of `make cassandra`
	rm -rf bin .cache results*.json
