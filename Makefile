# The targets do all their set-up in .venv with plain pip; a stamp for each set of packages.
# Of the many packages of `dev`, Python compiles what is imported; pip would compile all, one after the other.
HOST ?= 127.0.0.1
PORT ?= 7860
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

# Speaking compiles what speaks, once (docs/adr/0021): here, so that nobody waits for it later.
COMPILED := for voice in wren linnet siskin; do $(BIN)/studio say "Ready." --voice $$voice -o .venv/ready.wav > .venv/ready.log || exit 1; done

# Most tests start processes, whose modules take longest where they are compiled anew by each of them.
unexport PYTHONDONTWRITEBYTECODE

# Two arenas of memory: more of them keep what the threads of servers freed.
PYTEST := MALLOC_ARENA_MAX=2 $(BIN)/python -m pytest -n 3 --dist loadfile
SLOW := slow or browser or postgres or gpu or alone
ALONE = $(BIN)/python -m pytest -m alone $(ARGS) || [ $$? = 5 ] # none of those chosen by ARGS

# The unit tests of the pages need Node.js 20; npm provides it where the system has an older one.
NODE = $(shell node -e 'process.exit(Number(process.versions.node.split(".")[0] < 20))' && echo node || echo npm exec --yes --package=node@20 -- node)

.DEFAULT_GOAL := help

help: ## print the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:[^#]*## /\t/' | expand -t 12

app: .venv/app.stamp ## open the studio at http://$(HOST):$(PORT)
	$(BIN)/studio app --host $(HOST) --port $(PORT)

test: .venv/dev.stamp ## lint, and run the quick tests
	$(MAKE) --no-print-directory -j2 lint test-quick # one core of pyright, beside tests that wait now and then

test-quick: .venv/dev.stamp ## run the quick tests
	$(PYTEST) -m "not ($(SLOW))" $(ARGS)

test-slow: .venv/dev.stamp ## run the tests that `make test` leaves out: browser, PostgreSQL, GPU, long ones
	$(PYTEST) -m "($(SLOW)) and not alone" $(ARGS)
	$(ALONE)

test-all: .venv/dev.stamp ## lint, then run all tests, collected once
	$(MAKE) --no-print-directory lint
	$(PYTEST) -m "not alone" $(ARGS)
	$(ALONE)

cancels: .venv/dev.stamp ## interrupt over each door 1,000 times: are the words told as heard those that were played? (half an hour)
	STUDIO_CANCELS=1000 $(PYTEST) -k "interruption or interruptions" tests/serve/adapters tests/systems tests/chat $(ARGS)

lint: .venv/dev.stamp ## check style, types and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/pyright

lint-js: node_modules/.stamp ## check style and types of the pages' JavaScript, and run its unit tests (needs Node.js and npm)
	node_modules/.bin/biome check --error-on-warnings
	node_modules/.bin/tsc --noEmit
	$(NODE) --test --test-reporter=dot tests/ui/unit/*.test.js

bench: .venv/dev.stamp ## measure first audio, a step, the socket, how many typists fit, and the page
	$(BIN)/studio bench latency --setting m=5 --save
	$(BIN)/studio bench step --save
	$(BIN)/studio bench wire --save
	$(BIN)/studio bench load --save
	$(BIN)/studio bench page --save
	$(BIN)/studio bench highlight --save
	$(BIN)/studio bench start --save
	$(BIN)/studio bench summary


table: .venv/dev.stamp ## measure the voice and the speed of docs/results again (hours on two cores; its other tables say their commands)
	$(BIN)/studio eval vocoder --save
	$(BIN)/studio eval wer --setting m=5 --setting m=3 --setting m=1 --save
	$(BIN)/studio eval quality --setting m=1 --setting m=3 --setting m=5 --save
	$(BIN)/studio eval long --setting m=5 --save
	$(BIN)/studio eval hour --setting m=5 --voice wren:miles --save
	$(BIN)/studio eval short --save
	$(BIN)/studio eval boundaries --save
	$(BIN)/studio eval heard --save
	$(BIN)/studio bench latency --setting m=5 --save
	$(BIN)/studio bench step --save
	$(BIN)/studio bench wire --save
	$(BIN)/studio bench soak --live 12 --wpm 2000 --texts assets/texts/short.txt --save
	$(BIN)/studio bench load --queries --save
	$(BIN)/studio bench page --save
	$(BIN)/studio bench type --save
	$(BIN)/studio bench highlight --save
	$(BIN)/studio bench start --save
	$(BIN)/studio bench summary


clean: ## remove the environment
	rm -rf .venv node_modules

node_modules/.stamp: package.json
	npm install --no-package-lock --no-audit --no-fund --loglevel=error
	touch $@

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv .venv

.venv/app.stamp: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) install --quiet --constraint constraints.txt --editable '.[app]'
	$(COMPILED)
	touch $@

.venv/dev.stamp: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) install --quiet --constraint constraints.txt 'setuptools>=77,<80' numpy
	$(PIP) install --quiet --no-compile --constraint constraints.txt --editable '.[dev]'
	$(COMPILED)
	touch $@ .venv/app.stamp

.PHONY: help app test test-quick test-slow test-all cancels lint lint-js bench table clean
