# Everything runs in .venv, which the first target makes from the exact versions in requirements/.
# Another interpreter: make PYTHON=/path/to/python3.12 demo

PYTHON ?= python3
UV ?= uv
WORKERS ?= 2
SECONDS ?= 300

VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test test-long same house speed coverage fuzz swarm lint docs reproduce mutants bench coverage-of-papers locks clean

help:
	@echo "make demo                what a recorded program does to each network interface"
	@echo "make test                the tests: without the compiler, and compiled with bounds checks"
	@echo "make test-long           what is long by nature and seldom broken, with new seeds"
	@echo "make same                does a fixed set of commands answer as it did?"
	@echo "make house               lines and files of src/ by room, circles of imports, files on four ways"
	@echo "make speed               did it get slower, beside what stays as it is? needs a C compiler"
	@echo "make coverage            which lines no test runs"
	@echo "make fuzz                odd and damaged files for every reader, for SECONDS=300"
	@echo "make swarm               honest and hostile programs on every interface, for SECONDS=300"
	@echo "make lint                ruff and mypy"
	@echo "make docs                the documentation's site, with every link, command and picture checked"
	@echo "make reproduce           the papers' numbers: does one miss that is not listed as a known miss?"
	@echo "make mutants             breaks one place of the firmware at a time: does a test fail?"
	@echo "make bench               speed, beside pycachesim and libcachesim; needs a C compiler"
	@echo "make coverage-of-papers  which requirements of the papers have a test"
	@echo "make locks               resolve requirements/*.txt anew; needs uv"
	@echo "make clean               remove what these targets made"

demo: $(VENV)/run.stamp
	$(BIN)/nicscope demo --out demo-output

# One way after another; tests/suite.py says what runs in which, and why.
test: $(VENV)/dev.stamp
	@$(BIN)/python tests -n $(WORKERS)

test-long: $(VENV)/dev.stamp
	@$(BIN)/python tests --long -n $(WORKERS)

# Before and after a change that moves code and changes no result.  SAME=--record keeps other answers.
same: $(VENV)/dev.stamp
	@$(BIN)/python tests/same.py $(SAME)

house: $(VENV)/run.stamp
	@$(BIN)/python tests/house.py && $(BIN)/python tests/ways.py

# Two minutes; compiled code is that of the tests.  ONLY=verbs measures the rows of that name alone.
speed: $(VENV)/bench.stamp
	@$(BIN)/python bench/speed.py $(if $(ONLY),--only $(ONLY))

# Which lines no test runs; watching each line takes twice as long.
coverage: $(VENV)/dev.stamp
	@NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest tests -q -n $(WORKERS) --dist loadfile \
		--cov --cov-report=term:skip-covered

# Other files each time; SEED=N gives those of an earlier run again.
fuzz: $(VENV)/dev.stamp
	@$(BIN)/python tests/fuzz/run_fuzz.py --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

# Random programs, honest and hostile, on every interface; SEED=N gives one of an earlier run again.
swarm: $(VENV)/dev.stamp
	@$(BIN)/python tests/swarm/run_swarm.py --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# Links, commands and pictures first; then the site, where each warning is an error.
docs: $(VENV)/dev.stamp
	$(BIN)/python docs/check.py
	$(BIN)/python docs/pictures.py --check
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

# Minutes; ends with 1 on a miss that is not listed, and on a listed one that is met.
reproduce: $(VENV)/run.stamp
	@NICSCOPE_COMPILE=wait $(BIN)/nicscope reproduce

# Rates are of compiled code, which each script waits for; what a first use takes has a section of its own.
bench: $(VENV)/bench.stamp
	@$(BIN)/python bench/bench_first_use.py
	@echo
	@$(BIN)/python bench/bench_replay.py
	@echo
	@$(BIN)/python bench/bench_command.py
	@echo
	@$(BIN)/python bench/bench_onepass.py
	@echo
	@$(BIN)/python bench/bench_billion.py
	@echo
	@$(BIN)/python bench/bench_sweep.py
	@echo
	@$(BIN)/python bench/bench_size.py
	@echo
	@$(BIN)/python bench/bench_explore.py
	@echo
	@$(BIN)/python bench/bench_simulate.py
	@echo
	@$(BIN)/python bench/bench_ports.py
	@echo
	@$(BIN)/python bench/bench_pairs.py
	@echo
	@$(BIN)/python bench/bench_coherent.py
	@echo
	@$(BIN)/python bench/bench_via.py

# A sample of the places, anew each time; MUTANTS='--seed 7 --sample 40 --file nic/cache' chooses.
MUTANTS ?=
mutants: $(VENV)/mutants.stamp
	@$(BIN)/python tests/mutation $(MUTANTS)

coverage-of-papers: $(VENV)/run.stamp
	@$(BIN)/python tests/coverage_of_papers.py

clean:
	rm -rf $(VENV) demo-output docs/_build fuzz-failures .coverage .hypothesis .benchmarks .*_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A lock holds everything of the one before it in the same versions.
locks:
	@command -v $(UV) >/dev/null || { echo "make locks needs uv: https://docs.astral.sh/uv" >&2; exit 2; }
	$(call resolve,run,build,pyproject.toml)
	$(call resolve,dev,dev,requirements/run.txt)
	$(call resolve,mutants,mutants,requirements/dev.txt)
	$(call resolve,bench,bench,requirements/dev.txt)

define resolve
	$(UV) pip compile pyproject.toml --quiet --upgrade --universal --python-version 3.11 \
	  --generate-hashes --no-header --no-emit-index-url --no-emit-find-links \
	  --group $(2) $(if $(filter %.txt,$(3)),-c $(3)) -o requirements/$(1).txt
endef

# Stamps: a lock is installed once, and again when it or pyproject.toml changes.  A lock is whole, so
# nothing is resolved: pip before 23.3 asks for the newest coverage[toml], whose hash no lock has.
define install
	@echo "Installing requirements/$(1).txt into $(VENV)"
	@$(BIN)/python -m pip install -q --no-deps --require-hashes $(2) -r requirements/$(1).txt
	@$(BIN)/python -m pip install -q --no-deps --no-build-isolation -e .
	@touch $@
endef

$(VENV)/run.stamp: requirements/run.txt pyproject.toml | $(VENV)/made.stamp
	$(call install,run,--only-binary :all:)

$(VENV)/dev.stamp: requirements/dev.txt pyproject.toml | $(VENV)/made.stamp
	$(call install,dev,--only-binary :all:)

# Yattag, with which cosmic-ray writes pages that nobody asks for here, comes as a source only.
$(VENV)/mutants.stamp: requirements/mutants.txt pyproject.toml | $(VENV)/dev.stamp
	$(call install,mutants,--only-binary :all: --no-binary yattag)

# pycachesim comes as C source only and is built by the setuptools that the dev lock brings.
$(VENV)/bench.stamp: requirements/bench.txt pyproject.toml | $(VENV)/dev.stamp
	@command -v "$${CC:-cc}" >/dev/null || { echo "make speed and make bench need a C compiler to build pycachesim: install gcc, or name one with CC=..." >&2; exit 2; }
	@$(BIN)/python -c 'import pathlib, sys, sysconfig; sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").is_file())' \
	  || { echo "make speed and make bench need Python's headers to build pycachesim: on Debian or Ubuntu, apt install python3-dev" >&2; exit 2; }
	$(call install,bench,--use-pep517 --no-build-isolation)

$(VENV)/made.stamp:
	@command -v $(PYTHON) >/dev/null \
	  || { echo "there is no '$(PYTHON)' here; install Python 3.11 or newer, or name it: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "nicscope needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) -V 2>&1); name another: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	  || { echo "'$(PYTHON)' cannot make virtual environments; on Debian or Ubuntu: apt install python3-venv" >&2; exit 2; }
	@echo "Making $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@
