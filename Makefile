# The one menu: `make help` lists what there is.
SHELL := /bin/bash
PATH := $(PATH):/usr/sbin:/sbin
.DEFAULT_GOAL := help

.PHONY: help
help: ## list the verbs
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.PHONY: setup
setup: ## install what is missing, build what changed
	@tools/setup.sh
	@$(MAKE) --no-print-directory build

.PHONY: setup-tests
setup-tests: setup
	@tools/setup.sh tests

.PHONY: pins
pins: ## pin the newest versions of what is installed, with hashes
	@mkdir -p build
	@tools/pins.sh

.PHONY: build
build: ## BPF objects, native module, stand-in libraries
	@$(MAKE) --no-print-directory --silent -C bpf
	@$(MAKE) --no-print-directory --silent -C native
	@$(MAKE) --no-print-directory --silent -C sim

.PHONY: record
record: setup ## record this host for 20 s and show what each tenant did
	@.venv/bin/cotenant demo --if-idle --for 20s --store build/store

.PHONY: test
test: setup-tests ## everything that must hold, on the real kernel
	@.venv/bin/python -m compileall -q src # Else thousands of processes do, where Python may not write.
	@.venv/bin/python tools/suite.py

.PHONY: books
books: setup-tests ## do the numbers of random hosts add up? (SEEDS=20; 10 s of CPU each)
	@COTENANT_SEEDS=$(or $(SEEDS),20) .venv/bin/python -m pytest -q --timeout=0 -n 2 tests/books
	@for seed in $$(seq 1 $(or $(RECORDINGS),3)); do \
		COTENANT_SEED=$$seed COTENANT_SECONDS=20 COTENANT_REQUIRE_KERNEL=1 \
		.venv/bin/python -m pytest -q --timeout=0 tests/kernel/test_books.py || exit 1; done

.PHONY: defences
defences: setup-tests ## remove each defence against tenants in a copy, and see its tests fail (minutes)
	@.venv/bin/python tools/without_defences.py

.PHONY: kernels
kernels: setup-tests ## record on other kernels under qemu (two hours; QUICK=1 for ten minutes)
	@tools/setup.sh kernels
	@.venv/bin/python -m vm.run $(if $(QUICK),--quick) $(KERNELS)

.PHONY: spark-test
spark-test: setup-tests ## install Spark (450 MB), and ask a fleet on it, with workers that die (minutes)
	@tools/setup.sh spark
	@COTENANT_REQUIRE_SPARK=1 .venv/bin/python -m pytest -q tests/spark

.PHONY: readers-test
readers-test: setup-tests ## read every table with other programs, also older ones (450 MB, minutes)
	@tools/setup.sh readers
	@COTENANT_REQUIRE_READERS=1 .venv/bin/python -m pytest -q tests/readers

.PHONY: programs
programs: setup-tests ## build programs of other languages (Rust, Java), and record them (minutes)
	@COTENANT_REQUIRE_KERNEL=1 COTENANT_REQUIRE_PROGRAMS=1 \
		.venv/bin/python -m pytest -q --timeout=900 tests/programs

.PHONY: wheel
wheel: setup-tests ## the wheel and the sdist, into dist/, the same bytes each time (minutes)
	@tools/wheel.sh dist

.PHONY: deb
deb: setup-tests ## a package for Debian 12, into dist/ (minutes)
	@tools/deb.sh dist

.PHONY: package-test
package-test: setup-tests ## install what is packaged into Debians without a compiler, and use it (half an hour)
	@COTENANT_REQUIRE_KERNEL=1 .venv/bin/python -m pytest -q --timeout=1800 tests/package

.PHONY: image-test
image-test: package-test ## the same, and the container image: record with it, look at it over HTTP
	@COTENANT_REQUIRE_KERNEL=1 .venv/bin/python -m pytest -q --timeout=1200 tests/image

.PHONY: lint
lint: setup-tests ## style, types, the direction of imports, the shape of the tree, no code twice
	@.venv/bin/ruff check -q .
	@.venv/bin/ruff format -q --check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports >build/imports.log || { cat build/imports.log; exit 1; }
	@.venv/bin/python tools/check_tree.py
	@.venv/bin/pylint src/cotenant

.PHONY: gen
gen: build ## write again what is generated from bpf/common/event.h, the questions and the commands
	@.venv/bin/python tools/gen_schema.py src/cotenant/schema \
		src/cotenant/_native/objects/*.bpf.o
	@.venv/bin/python tools/gen_docs.py
	@.venv/bin/python tools/gen_reference.py
	@.venv/bin/python tools/gen_man.py

.PHONY: bench
bench: setup-tests ## measure what it costs, into docs/bench/ (an hour; BENCH=--quick for ten minutes)
	@tools/setup.sh bench
	@.venv/bin/python bench/run.py $(BENCH)

.PHONY: soak
soak: setup-tests ## an hour of events and a new container each second: does it stay small?
	@mkdir -p build
	@.venv/bin/python bench/soak.py >build/soak.json
	@.venv/bin/python bench/run.py --put soak build/soak.json

.PHONY: clean
clean: ## remove what was built
	rm -rf build dist bpf/build native/build sim/build src/cotenant/_native/objects src/cotenant/_native/*.so
