# What a person types. Everything below asks for nothing but Python 3.11 or newer and make.

# The one line that someone with an NVIDIA GPU changes: "gpu" installs the CUDA builds of torch and FAISS.
HARDWARE ?= cpu

# Where the web server listens, on this machine only.
PORT ?= 8000

PYTHON ?= python3
BOOTSTRAP = @$(PYTHON) -m workers.bootstrap --hardware $(HARDWARE)
export PORT

.DEFAULT_GOAL = help
.PHONY: help run install test lint format bench chaos audit clean

help: ## this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/'

run: ## install what is missing, then start everything; Ctrl-C stops it
	$(BOOTSTRAP) run

install: ## the virtual environment alone
	$(BOOTSTRAP) install

test: ## all tests, on SQLite and where it matters on PostgreSQL (NIGHTLY=1: those that take minutes, too)
	$(BOOTSTRAP) test

lint: ## ruff, mypy, djlint, the generated client, and the audit where it is possible (AUDIT=required: or else fail)
	$(BOOTSTRAP) lint

format: ## let ruff put the code into shape, and generate the synchronous client
	$(BOOTSTRAP) format

bench: ## the measurements of benchmarks/, as a table and as JSON
	$(BOOTSTRAP) bench

chaos: ## kill whatever runs fifty times at random instants, and see that every job ends right
	$(BOOTSTRAP) chaos

audit: ## ask whether vulnerabilities of the pinned packages are known
	$(BOOTSTRAP) audit

clean: ## remove what can be made again (the data folder stays)
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis staticfiles test-results
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
