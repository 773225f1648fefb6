# One environment for everything; rebuilt when the project's requirements change.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin

.PHONY: demo test test-long bench lint clean

demo: $(VENV)/ready
	$(RUN)/python -m benchmarks.demo

test: lint
	$(RUN)/python -m pytest -m "not long"

test-long: $(VENV)/ready
	$(RUN)/python -m pytest -m long

bench: $(VENV)/ready
	$(RUN)/python -m benchmarks

lint: $(VENV)/ready
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy

clean:
	rm -rf $(VENV)

$(VENV)/ready: pyproject.toml constraints.txt
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	touch $@
