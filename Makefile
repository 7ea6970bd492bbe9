# Every command of a checkout; `make` alone lists them. Needs Python 3.11 or newer, pip and make.
#
#   PYTHON=/some/python3.12 make run     builds .venv with that Python (default: the first suitable one found)
#   MLFLOW_PORT=5001 make ui             another port; PREFECT_PORT for Prefect's server

VENV := .venv
MLFLOW_PORT ?= 5000
CANDIDATES := $(or $(PYTHON),python3.11 python3.12 python3.13 python3.14 python3 python)

# DVC starts stages as `python -m mfcp.stages.…`: that must be the environment's Python.
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
unexport PYTHONHOME PYTHONPATH
# Images of containers often set it: every process would then compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

# No tool reports anything to anyone (the same list as src/mfcp/environment.py, held equal by a test).
export DO_NOT_TRACK := true
export DVC_NO_ANALYTICS := 1
export GX_ANALYTICS_ENABLED := false
export HF_HUB_DISABLE_TELEMETRY := 1
export MLFLOW_DISABLE_TELEMETRY := true
export PREFECT_SERVER_ANALYTICS_ENABLED := false
export RAY_USAGE_STATS_ENABLED := 0

.DEFAULT_GOAL := help
.PHONY: help setup is-a-repository run test check fuzz faults lint bench paper docs ui flow schedule platform lock
.DELETE_ON_ERROR:

help: ## list these commands
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | awk -F '\t' '{ printf "  make %-10s %s\n", $$1, $$2 }'

# An archive of the sources unpacks without one; told before minutes of set-up, not by DVC after them.
is-a-repository:
	@[ -e .git ] || why=$$(git rev-parse --git-dir 2>&1) || { \
	  echo "make: DVC and the tests need a git repository: $$why. In an unpacked archive: git init -q && git add -A" >&2; exit 1; }

setup: $(VENV)/.ready ## make .venv from requirements.lock (the other commands do it when needed)

run: is-a-repository $(VENV)/.ready ## run the pipeline on the default data and print the comparison of methods
	@dvc repro
	@mfcp table data/reports/metrics.json
	@echo "The whole comparison, for a browser: data/reports/report.html"

# A third worker: tests wait for servers and disks for a third of their time.
test: is-a-repository lint ## lint, types, and all tests; prints the 25 slowest
	@python -m pytest -n 3 --dist loadgroup --durations 25

check: is-a-repository lint ## lint, types, and the fast tests of what has changed since the last commit (SINCE=REVISION: since that)
	@python -m pytest -n 2 --dist loadgroup -m "not slow and not long" $$(python tests/affected.py $(SINCE))

fuzz: $(VENV)/.ready ## 100,000 changed inputs against every reader, with limits on time and memory; some ten minutes
	@python tests/fuzz/campaign.py --cases 100000 --json data/reports/fuzz.json
	@CONTRACT_EXAMPLES=360 python -m pytest -q -p no:cacheprovider tests/platform/service/test_contract.py

faults: $(VENV)/.ready ## commands that write, killed at every operation on a file, on a full disk, beside each other
	@python tests/crashes/campaign.py --json data/reports/faults.json

lint: $(VENV)/.ready ## ruff and mypy
	@ruff check .
	@ruff format --check .
	@mypy -n auto

bench: $(VENV)/.ready ## run every benchmark; peers that are not installed are skipped with a reason
	@failed=; for program in benchmarks/*.py; do \
	  [ -e "$$program" ] || continue; \
	  echo "== $$program"; python "$$program" || failed="$$failed $$program"; \
	done; \
	echo "== benchmarks/dede"; python -m benchmarks.dede || failed="$$failed benchmarks/dede"; \
	[ -z "$$failed" ] || { echo "failed:$$failed" >&2; exit 1; }

paper: $(VENV)/.ready ## the paper's tables and figures; goes on after a kill (DATA="NAME=DIR …": further logs)
	@mfcp paper $(foreach log,$(DATA),--data $(log))

docs: $(VENV)/.ready ## the documentation as a site, notebooks run, without network: docs/_build/html/index.html
	@sphinx-build --quiet --fail-on-warning --keep-going --builder html docs docs/_build/html
	@echo "The documentation, for a browser: docs/_build/html/index.html"

ui: $(VENV)/.ready ## MLflow's pages over mlruns/, on this machine only
	@[ -e mlruns/mlflow.db ] || { echo "no tracked runs yet: 'make run' first" >&2; exit 1; }
	@echo "MLflow: http://127.0.0.1:$(MLFLOW_PORT)  (Ctrl-C ends it)"
	@echo "Which method wins (excess_vs_tsm, below 1 is better):"
	@python -c "from mfcp.tracking import methods_page; print('http://127.0.0.1:$(MLFLOW_PORT)' + methods_page('mfcp'))"
	@MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false mlflow ui --backend-store-uri sqlite:///mlruns/mlflow.db --host 127.0.0.1 --port $(MLFLOW_PORT) --workers 1

flow: is-a-repository $(VENV)/.ready ## run the pipeline once through Prefect, with a temporary server
	@python -m flows.pipeline

schedule: is-a-repository $(VENV)/.ready ## Prefect server, the deployments of prefect.yaml and a worker, until Ctrl-C
	@python -m flows.service

platform: $(VENV)/.ready ## a whole platform with simulated clusters (CLUSTERS=slurm: real ones), watched in the terminal and in pages
	@python -m flows.loop

# The hashes are those of every file that the index has of a version; uv asks for them, and is installed for that alone.
lock: $(VENV)/.ready ## write requirements.lock and torch.lock from .venv (after an upgrade that passes `make test`)
	@uv=$$(mktemp -d) && trap 'rm -rf $$uv' EXIT && python -m pip install -qq --disable-pip-version-check --target $$uv uv && \
	python -m pip freeze --all --exclude mfcp --exclude pip | sed 's/+cpu$$//' > $$uv/installed && \
	{ grep '^#' torch.lock; grep '^torch==' $$uv/installed; } > $$uv/torch.lock && \
	grep -v '^torch==' $$uv/installed > $$uv/others && \
	$$uv/bin/uv pip compile --quiet --no-config --no-deps --generate-hashes --no-annotate --no-header --python .venv/bin/python \
	  --output-file $$uv/hashed $$uv/others && \
	{ grep '^#' requirements.lock; cat $$uv/hashed; } > $$uv/requirements.lock && \
	mv $$uv/requirements.lock $$uv/torch.lock .

# Two steps, each its own stamp: the packages take minutes and are redone only when the lock changes. An
# installation that was cut short may lack files that pip believes in, so the next one starts over. pip would write
# every module's byte code before it ends; the last line has that done while the next command runs.
$(VENV)/.locked: requirements.lock torch.lock
	@if [ -e $(VENV)/.unfinished ]; then echo "set-up: the last one was interrupted; starting over"; rm -rf $(VENV); fi
	@if [ ! -x $(VENV)/bin/python ]; then \
	  for python in $(CANDIDATES); do \
	    if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
	  done; \
	  if [ -z "$$found" ]; then \
	    echo "set-up: needs Python 3.11 or newer; tried: $(CANDIDATES). Give one: make PYTHON=/path/to/python3.11 …" >&2; \
	    exit 1; \
	  fi; \
	  echo "set-up: making $(VENV) with $$($$found --version)"; \
	  mkdir -p $(VENV); touch $(VENV)/.unfinished; \
	  $$found -m venv $(VENV) || { echo "set-up: this Python has no working venv module; install it or give another PYTHON" >&2; exit 1; }; \
	fi
	@echo "set-up: installing $$(cat requirements.lock torch.lock | grep -c ==) packages from requirements.lock and torch.lock (minutes the first time)"
	@touch $(VENV)/.unfinished
	@$(VENV)/bin/python -m pip install -qq --no-compile --disable-pip-version-check --no-deps --require-hashes --requirement requirements.lock
	@export PYTHONPATH=src python=$(VENV)/bin/python; \
	  { $$python -m mfcp.matching; nice $$python -m mfcp.simulator; } >/dev/null 2>&1 &  # goes on beside what follows
	@$(VENV)/bin/python -m pip install -qq --no-compile --disable-pip-version-check --requirement torch.lock
	@rm $(VENV)/.unfinished
	@touch $@
	@nice -n 19 $(VENV)/bin/python -m compileall -q -j 0 $(VENV)/lib >/dev/null 2>&1 &

$(VENV)/.ready: $(VENV)/.locked pyproject.toml
	@$(VENV)/bin/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
	@echo "set-up: done"
