# One environment for everything, and one for the peers; each is rebuilt when its requirements change.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin
PEERS := .venv-peers
# Python compiles what is imported; compiling all that is installed would take as long as installing it.
INSTALL := $(RUN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
# Modules that Python has compiled are kept, whatever the shell says: tests start many processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test fast-tests test-targets test-long chaos odd soak docs bench bench-peers lint clean

demo: $(VENV)/ready
	$(RUN)/python -m benchmarks.demo

# Lint and types are checked while the tests' first step compiles, on one core.
test: $(VENV)/ready
	$(MAKE) --jobs=2 lint fast-tests

# Files in their own order: short examples come last, so that no worker is left with a long file at the end.
fast-tests: $(VENV)/ready
	$(RUN)/python -m pytest -m "not long" --numprocesses 2 --dist loadfile --no-loadscope-reorder

test-targets: $(VENV)/ready
	$(RUN)/python tests/targets.py --numprocesses 2 --dist loadfile

test-long: $(VENV)/ready
	$(RUN)/python -m pytest -m long --numprocesses 2 --dist worksteal

# Kills runs of all kernels at random times; each must end with the draws of the unbroken run. Half an hour at most.
chaos: $(VENV)/ready
	$(RUN)/python tests/chaos.py

# Some 3,700 bad and odd inputs: each must end in a right answer or a clear error.
odd: $(VENV)/ready
	PYTHONPATH=tests $(RUN)/python -m odd --seed 1

# Small and large fits, kills, Ctrl-C, full disks and fits at the same time, for so many minutes.
MINUTES ?= 60
soak: $(VENV)/ready
	$(RUN)/python tests/soak.py --minutes $(MINUTES)

docs: $(VENV)/docs
	$(RUN)/python -m pytest docs/*.py tests/test_site.py tests/test_reference.py
	$(RUN)/mkdocs build --strict

bench: $(VENV)/ready
	$(RUN)/python -m benchmarks

bench-peers: $(VENV)/ready $(PEERS)/ready
	$(RUN)/python -m benchmarks.peers

lint: $(VENV)/ready
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy

clean:
	rm -rf $(VENV) $(PEERS) site

$(VENV)/ready: pyproject.toml constraints.txt
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable ".[dev]"
	touch $@

$(VENV)/docs: $(VENV)/ready
	$(INSTALL) --editable ".[docs]"
	touch $@

$(PEERS)/ready: benchmarks/peers/requirements.txt
	rm -rf $(PEERS)
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	touch $@
