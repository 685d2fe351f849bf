# SPDX-License-Identifier: BSD-2-Clause
# A thin layer over CMake. `make help` lists what there is.

PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
# DEPS=no: install nothing and do not look for missing packages
DEPS ?= yes
# more options for CMake, used when a build folder is first made
CMAKE_FLAGS ?=
# which benchmarks `make bench` runs; all by default
BENCH ?=
# how long `make fuzz` runs each target
FUZZ_SECONDS ?= 60
# how many random changes `make mutants` tries in each of which modules, and the seed of the choice
MUTANTS ?= 20
MUTANTS_MODULES ?= array cache dev nvme vol
MUTANTS_SEED ?= 1
# which tests `make check-long` runs: a regular expression
TESTS ?= .

deps = $(if $(filter no,$(DEPS)),:,scripts/install-deps.sh $(1))
# $(call cached,FOLDER,NAME): an entry of CMake's cache
cached = $$(sed -n 's/^$(2):INTERNAL=//p' $(1)/CMakeCache.txt)
# $(call forget,FOLDER): empty a build folder that came with a tree that was copied or moved. All paths in it are absolute:
# it would build and install in the tree that it came from. installed.txt stays, for `make uninstall`.
forget = if test -f $(1)/CMakeCache.txt && ! { test "$(call cached,$(1),CMAKE_HOME_DIRECTORY)" -ef . && \
	test "$(call cached,$(1),CMAKE_CACHEFILE_DIR)" -ef $(1); }; then \
	echo "$(1) was configured for $(call cached,$(1),CMAKE_HOME_DIRECTORY): configuring it anew" >&2; \
	find $(1)/ -mindepth 1 -maxdepth 1 ! -name installed.txt -exec rm -rf {} +; fi
# $(call configure,FOLDER,OPTIONS): once; CMake itself notices later changes
configure = $(call forget,$(1)); test -f $(1)/build.ninja || test -f $(1)/Makefile || \
	cmake -S . -B $(1) $$(command -v ninja >/dev/null && echo -G Ninja) $(CMAKE_FLAGS) $(2)
# $(call strict,FOLDER,OPTIONS): the same, for checks: a warning is an error
strict = { $(call configure,$(1),-DFTH_WERROR=ON $(2)); } && \
	{ grep -q '^FTH_WERROR:BOOL=ON$$' $(1)/CMakeCache.txt || cmake -DFTH_WERROR=ON $(1); }
compile = cmake --build $(1) --parallel $(JOBS)

.PHONY: all build demo check check-plain check-asan check-tsan check-long check-guest check-gpu check-format \
	check-layers check-headers bench bench-gpu gpu plots site fuzz mutants \
	format install uninstall clean help deps-build deps-check

all: build

deps-build:
	@$(call deps,build)

deps-check:
	@$(call deps,check)

build: deps-build ## build the library, the tool (build/fathom), tests and examples
	@$(call configure,build)
	@$(call compile,build)

# Device code takes minutes to compile, and the demo runs none of it: where nvcc would compile it, the demo has a folder of its own.
has_nvcc = $(shell PATH=$$PATH:/usr/local/cuda/bin command -v nvcc)
demo_in = $(if $(and $(has_nvcc),$(if $(wildcard build/fathom),,none)),build-demo,build)
demo: deps-build ## build what is needed and show it at work
	@$(call configure,$(demo_in),$(if $(has_nvcc),-DFTH_CUDA=OFF))
	@$(call compile,$(demo_in)) --target fathom fathom-bench
	@$(demo_in)/fathom demo

check: ## build and run all tests, plain and under sanitizers
	@$(MAKE) --no-print-directory check-plain
	@$(MAKE) --no-print-directory check-asan
	@$(MAKE) --no-print-directory check-tsan
	@echo "check: all passed. plain: $$(cat build/summary);" \
		"ASan and UBSan: $$(cat build-asan/summary); TSan: $$(cat build-tsan/summary)"

check-plain: deps-check ## all tests, among them format, layers, headers, examples, install
	@$(call strict,build)
	@$(call compile,build)
	@scripts/run-tests.sh build --parallel $(JOBS)

check-asan: deps-check ## the tests that run code, under AddressSanitizer and UBSan
	@$(call strict,build-asan,-DFTH_SANITIZE=address)
	@$(call compile,build-asan)
	@scripts/run-tests.sh build-asan --parallel $(JOBS) --label-exclude once

check-tsan: deps-check ## the concurrent tests, under ThreadSanitizer
	@$(call strict,build-tsan,-DFTH_SANITIZE=thread)
	@$(call compile,build-tsan) --target concurrent_tests
	@scripts/run-tests.sh build-tsan --parallel $(JOBS) --label-regex concurrent

# CMake knows the time limits of tests: it is run again for others, which compiles nothing.
check-long: deps-check ## the long versions of the tests, or of those that match TESTS=REGEX; takes hours
	@$(call strict,build)
	@$(call compile,build)
	@cmake -DFTH_LONG_TESTS=ON build >/dev/null
	@status=0; FTH_LONG_TESTS=1 scripts/run-tests.sh build --label-exclude once -R '$(TESTS)' || status=$$?; \
		cmake -DFTH_LONG_TESTS=OFF build >/dev/null; exit $$status

check-guest: deps-check ## only: our driver on the NVMe drives of a QEMU guest
	@tests/guest/guest_test.sh

check-gpu: ## only: device code on the GPU of this machine, plain and under compute-sanitizer
	@$(call strict,build)
	@$(call compile,build)
	@failed=0; for what in check memcheck racecheck; do \
		scripts/gpu.sh $$what build || test $$? = 77 || failed=1; done; exit $$failed

check-format: deps-check ## only: is the code formatted?
	@scripts/format.sh --check

check-layers: ## only: does no module include a higher one, and is no folder too full?
	@scripts/check-layers.sh
	@scripts/check-folders.py

check-headers: deps-check ## only: does each public header compile alone?
	@scripts/check-headers.sh

bench: build ## run the benchmarks, or those named in BENCH="a b"
	@$(call deps,bench)
	@for name in $(or $(BENCH),$$(build/fathom bench | awk '/^  /{print $$1}')); do \
		build/fathom bench $$name || test $$? = 77 || exit 1; done

bench-gpu: build ## run the benchmarks of GPU threads; JSON in build/gpu-*.json, a table at the end
	@scripts/gpu.sh bench build || test $$? = 77

gpu: check-gpu bench-gpu ## build, check and time all that needs a GPU, in one go

plots: ## draw doc/figures from the lines of JSON in doc/data
	@$(call deps,plots)
	@scripts/plot.py doc/data doc/figures

site: ## build the documentation as web pages, in build/site/html
	@$(call deps,site)
	@scripts/site.py build/site

fuzz: ## run each fuzz target for FUZZ_SECONDS seconds; needs clang
	@$(call deps,fuzz)
	@$(call configure,build-fuzz,-DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ \
		-DFTH_SANITIZE=address -DFTH_LIBFUZZER=ON)
	@$(call compile,build-fuzz)
	@scripts/run-fuzz.sh build-fuzz $(FUZZ_SECONDS)

mutants: deps-check ## try MUTANTS random changes per module: which of them does no test notice?
	@for module in $(MUTANTS_MODULES); do scripts/mutants.py --module $$module --count $(MUTANTS) \
		--seed $(MUTANTS_SEED) --jobs $(JOBS) || exit 1; done

format: deps-check ## format the code
	@scripts/format.sh

install: deps-build ## build the tool and the library and install to PREFIX (/usr/local), below DESTDIR if given
	@$(call configure,build)
	@$(call compile,build) --target installed
	@cmake --install build --prefix $(PREFIX) >build/install.log || { cat build/install.log; exit 1; }
	@cp build/install_manifest.txt build/installed.txt
	@test -n "$(DESTDIR)" || scripts/after-install.sh $(PREFIX)

uninstall: ## remove what the last `make install` put there
	@sed "s|^|$(DESTDIR)|" build/installed.txt | xargs -d '\n' rm -fv --

clean: ## remove the build folders
	@rm -rf build build-asan build-demo build-tsan build-fuzz build-guest build-mutants

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
