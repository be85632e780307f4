# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PYTHON=/path/to/python3 chooses the interpreter; without it the newest usable one is taken.
PYTHON ?=
ONLY ?=
NODE ?= a
LAB = python tests/lab/lab.py
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.PHONY: help venv demo demo-clean test test-cluster test-lab lab-up lab-ssh lab-down lab-status bench docs clean
.DEFAULT_GOAL := help

help:
	@echo 'make demo        plan and write three nodes on paper (makes .venv first)'
	@echo 'make demo-clean  forget what the demo wrote'
	@echo 'make test        every stage of tests/run.py but the cluster and the lab; ONLY="lint units" runs these; python tests/run.py --list names them'
	@echo 'make bench       measure: reading topology, auditing 200 hosts'
	@echo 'make test-cluster  a real Kubernetes control plane, its nodes stand-ins; built with Go the first time (tests/cluster/README.md)'
	@echo 'make test-lab    the lab: molecule scenarios on virtual two-socket nodes with real kernels (tests/lab/README.md); FULL=1 for all'
	@echo 'make lab-up NODE=a, lab-ssh NODE=a, lab-status, lab-down   such nodes by hand'
	@echo 'make docs        write docs/knobs.md from the registry of knobs'
	@echo 'make clean       remove everything that make made'
	@echo 'PYTHON=/path/to/python3 chooses the interpreter (3.11 or later).'

venv:
	@.venv/bin/python tests/tools/env.py check $(PYTHON) 2>/dev/null || { \
	  python='$(PYTHON)'; \
	  if [ -z "$$python" ]; then found=$$(sh tests/tools/find_python.sh newest) || exit 1; python=$${found#* }; fi; \
	  "$$python" -c 'import sys, venv, ensurepip; raise SystemExit(sys.version_info < (3, 11))' 2>/dev/null \
	    || { echo "$$python cannot be used: it must run, be Python 3.11 or later, and have venv and ensurepip." >&2; exit 1; }; \
	  "$$python" tests/tools/env.py make; }

demo: venv
	@echo 'ansible-playbook -i inventories/demo playbooks/site.yml'
	@ansible-playbook -i inventories/demo playbooks/site.yml

demo-clean:
	rm -rf inventories/demo/.nodes

test: venv
	@python tests/run.py $(ONLY)

test-cluster: venv
	@python tests/run.py cluster

test-lab: venv
	@python tests/run.py lab

lab-up: venv
	@$(LAB) up $(NODE) --iommu

lab-ssh: venv
	@$(LAB) ssh $(NODE)

lab-status: venv
	@$(LAB) status

lab-down: venv
	@$(LAB) down --all

bench: venv
	@python tests/bench/run.py

docs: venv
	@python tests/tools/knobs_doc.py

clean: demo-clean
	rm -rf .venv .cache .collections .ansible .pytest_cache .mypy_cache .ruff_cache .hypothesis dist tests/output
