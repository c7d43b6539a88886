# The front door. It only calls scripts and CMake presets; CMake alone owns what is built from what.
#
#   make help       what there is
#   make demo       the main job, end to end, on a machine without a GPU
#   make test       every test

SHELL := /bin/bash
JOBS ?= $(shell nproc)
BUILD := build/dev
MAKEFLAGS += --no-print-directory

.DEFAULT_GOAL := help
.PHONY: help bootstrap configure build nccl demo test unit integration check asan tsan bench-overhead check-ptxas format tidy clean

help: ## This list
	@echo "make demo and make test do everything: packages, upstream's source, build, run."
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "JOBS=4 limits the processors a build uses."

bootstrap: ## Install missing packages (root), look for the CUDA toolkit
	@scripts/bootstrap

configure: bootstrap
	@scripts/configure dev

build: configure ## Build everything into build/dev
	@cmake --build --preset dev --parallel $(JOBS)

nccl: configure ## Build only libnccl.so.2 for the CPU device
	@cmake --build --preset dev --parallel $(JOBS) --target nccl

demo: configure ## Plant a fault of each class and see it found (one of them: FAULT=h3)
	@cmake --build --preset dev --parallel $(JOBS) --target demo_parts
	@scripts/demo --build $(BUILD) $(if $(FAULT),--fault $(FAULT))

check: ## Check the direction of dependencies between the folders
	@scripts/check-includes

test: check build ## Every test: unit and integration
	@ctest --preset dev --parallel $(JOBS) --no-label-summary

unit: build ## Unit tests only
	@ctest --preset unit --parallel $(JOBS) --no-label-summary

integration: build ## Tests with real NCCL processes and real faults only
	@ctest --preset integration --no-label-summary

asan: ## Unit tests under AddressSanitizer and UndefinedBehaviorSanitizer (build/asan)
	@scripts/bootstrap --without-cuda
	@scripts/configure asan
	@cmake --build --preset asan --parallel $(JOBS)
	@ctest --preset asan --parallel $(JOBS) --no-label-summary

tsan: ## Unit tests under ThreadSanitizer (build/tsan)
	@scripts/bootstrap --without-cuda
	@scripts/configure tsan
	@cmake --build --preset tsan --parallel $(JOBS)
	@ctest --preset tsan --parallel $(JOBS) --no-label-summary

bench-overhead: configure ## What the probe costs, against upstream's own NCCL (10 minutes; QUICK=1: two)
	@scripts/configure pristine
	@cmake --build --preset pristine --parallel $(JOBS) --target nccl
	@cmake --build --preset dev --parallel $(JOBS) --target bench_parts
	@python3 benchmarks/overhead/bench_overhead.py --build $(BUILD) --pristine build/pristine \
	  $(if $(QUICK),--quick --out build/overhead-quick.json,--out benchmarks/results/overhead-cpu.json)

check-ptxas: ## Registers, stack and spills of the GPU kernels, against upstream's own (needs nvcc, no GPU)
	@scripts/bootstrap
	@python3 benchmarks/ptxas/check_ptxas.py --jobs $(JOBS) --out benchmarks/results/ptxas-sm90.json

format: ## Format all sources with clang-format
	@scripts/format

tidy: configure ## Run clang-tidy over our own sources
	@scripts/tidy $(BUILD)

clean: ## Remove the build trees; upstream's verified tarball in build/cache stays
	@find build -mindepth 1 -maxdepth 1 ! -name cache -exec rm -rf {} + 2>/dev/null || true
