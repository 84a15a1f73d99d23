# Makefile - the commands people type; Meson does the work. `make help` lists them.

BUILD ?= build
VENV ?= $(or $(TDM_VENV),$(BUILD)/venv)
PREFIX ?= /usr/local
# More Meson options, for example MESON_OPTIONS=-Dwerror=true
MESON_OPTIONS ?=
TEST_OPTIONS ?= --print-errorlogs

sanitize_options = -Dbuildtype=debugoptimized -Db_lundef=false
log = meson-logs/testlog.json
# One more than processors: some always wait for a deadline.
sanitize_tests = --no-rebuild --no-suite guards --num-processes $(shell expr $$(nproc) + 1)
with_torch = meson configure $(BUILD) -Dpytorch=enabled -Dpytorch_python=$(abspath $(VENV))/bin/python && ninja -C $(BUILD)

.PHONY: all help setup demo venv torch test test-torch test-torch-suite build-asan build-tsan test-asan test-tsan bench install clean

all: ## build/tandem and its libraries
	@tools/build.sh $(BUILD) $(MESON_OPTIONS)

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  \1\t/p' $(MAKEFILE_LIST) | expand -t 16

setup: ## install missing Debian packages (as root)
	@tools/setup.sh build test

demo: ## train a small GPT on the King James Bible, on all cores, and let it write
	@tools/setup.sh build
	@tools/build.sh $(BUILD) $(MESON_OPTIONS)
	@tools/demo.sh $(BUILD)

venv: ## the virtual environment with PyTorch alone
	@tools/setup.sh build torch
	@tools/venv.sh $(VENV)

torch: ## build PyTorch's backend "tandem" and install it into VENV
	@tools/setup.sh build torch
	@tools/venv.sh $(VENV)
	@tools/build.sh $(BUILD) $(MESON_OPTIONS)
	@$(with_torch)
	@TDM_BUILD=$(abspath $(BUILD)) $(VENV)/bin/pip install --quiet --disable-pip-version-check --no-build-isolation --force-reinstall --no-deps .

test: setup ## build and run every test
	@rm -f $(BUILD)/$(log)
	@tools/build.sh $(BUILD) $(MESON_OPTIONS)
	@-meson test -C $(BUILD) --no-rebuild $(TEST_OPTIONS)
	@tools/test_summary.py $(BUILD)/$(log)

test-torch: ## compare with PyTorch, and test its backend, in a virtual environment made for it
	@tools/setup.sh build torch
	@rm -f $(BUILD)/torch.xml
	@tools/build.sh $(BUILD) $(MESON_OPTIONS)
	@tools/venv.sh $(VENV)
	@$(with_torch)
	@-TDM_BUILD=$(abspath $(BUILD)) $(VENV)/bin/python -m pytest tests/torch tests/pytorch -q --junitxml=$(BUILD)/torch.xml
	@tools/test_summary.py $(BUILD)/torch.xml

test-torch-suite: ## run PyTorch's own distributed tests on backend tandem
	@tools/setup.sh build torch
	@tools/build.sh $(BUILD) $(MESON_OPTIONS)
	@tools/venv.sh $(VENV)
	@$(with_torch)
	@TDM_BUILD=$(abspath $(BUILD)) $(VENV)/bin/python tests/pytorch/suite/run_suite.py --logs $(BUILD)/torch-suite

build-asan: ## what test-asan runs
	@tools/setup.sh build test sanitize
	@CC=clang CXX=clang++ tools/build.sh $(BUILD)-asan $(sanitize_options) -Db_sanitize=address,undefined $(MESON_OPTIONS)

build-tsan: ## what test-tsan runs
	@tools/setup.sh build test sanitize
	@CC=clang CXX=clang++ tools/build.sh $(BUILD)-tsan $(sanitize_options) -Db_sanitize=thread $(MESON_OPTIONS)

test-asan: build-asan ## every test under clang's address and undefined-behaviour sanitizers
	@rm -f $(BUILD)-asan/$(log)
	@-tests/sanitize.sh meson test -C $(BUILD)-asan $(sanitize_tests) --timeout-multiplier 4 $(TEST_OPTIONS)
	@tools/test_summary.py $(BUILD)-asan/$(log)

test-tsan: build-tsan ## every test with threads under clang's thread sanitizer
	@rm -f $(BUILD)-tsan/$(log)
	@-tests/sanitize.sh meson test -C $(BUILD)-tsan $(sanitize_tests) --timeout-multiplier 8 $(TEST_OPTIONS)
	@tools/test_summary.py $(BUILD)-tsan/$(log)

bench: ## measure beside PyTorch and MPI (many minutes; wants a quiet machine)
	@tools/setup.sh build test torch
	@tools/build.sh $(BUILD) $(MESON_OPTIONS)
	@tools/venv.sh $(VENV)
	@TDM_BUILD=$(abspath $(BUILD)) $(VENV)/bin/python bench/run.py

install: ## install below PREFIX (default /usr/local)
	@tools/build.sh $(BUILD) $(MESON_OPTIONS)
	@meson configure $(BUILD) -Dprefix=$(abspath $(PREFIX))
	@meson install -C $(BUILD)

clean: ## remove everything that was built, the virtual environment too
	rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-tsan
