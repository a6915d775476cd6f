# `make lab` runs the main job, `make test` the tests; each sets itself up in .venv first.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python

.PHONY: lab test slow lint scripts bench figures clean

lab: $(VENV)/installed
	$(RUN) scripts/04_spec_decode_speedup.py

test: $(VENV)/installed-dev
	$(RUN) -m pytest -n auto --dist loadfile

slow: $(VENV)/installed-dev
	$(RUN) -m pytest -m slow -n auto --dist worksteal

lint: $(VENV)/installed-dev
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

scripts: $(VENV)/installed
	for script in scripts/[0-9]*.py; do $(RUN) $$script --fast || exit 1; done

bench: $(VENV)/installed
	$(RUN) scripts/bench.py

figures: $(VENV)/installed-dev
	for script in 03_spec_decode_is_exact 08_paper_tables 09_real_text 10_acceptance_is_not_iid \
	    11_wall_clock; do \
	    $(RUN) scripts/$$script.py --plots lectures/figures || exit 1; done

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	$(RUN) -m pip install --quiet -e .
	touch $@

$(VENV)/installed-dev: pyproject.toml | $(VENV)/bin/python
	$(RUN) -m pip install --quiet -e ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info
