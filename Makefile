# The front door. It only calls scripts and CMake presets; CMake alone owns what is built from what.
#
#   make help       what there is
#   make demo       the main job, end to end, on a machine without a GPU
#   make test       every test

SHELL := /bin/bash
JOBS ?= $(shell nproc)
# Many tests wait for most of their time. Those that load the machine count twice, or run alone.
TESTS_AT_ONCE ?= $(shell echo $$((2 * $(JOBS))))
BUILD := build/dev
MAKEFLAGS += --no-print-directory
COMMA := ,

.DEFAULT_GOAL := help
.PHONY: gpu-verify help bootstrap configure build nccl install install-nccl release release-parts nccl-small check-abi demo demo-web demo-mitigate demo-cluster test unit integration sim fuzz check asan tsan accuracy ablate bench-overhead bench-scale chaos check-kills check-cluster check-strangers check-validate check-in-job check-ptxas check-sass image image-test format tidy clean

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

# FULL=1: every function, for all architectures of the toolkit.
CUDA_PRESET := $(if $(FULL),cuda-full,cuda)
nccl: bootstrap ## Build libnccl.so.2 for GPUs, with nvcc (20 minutes on two cores; FULL=1: every function; NVCC_GENCODE="-gencode=arch=compute_90,code=sm_90 ...")
	@scripts/configure $(CUDA_PRESET) "-DCCLD_NVCC_GENCODE=$(or $(NVCC_GENCODE),$(if $(FULL),all,shipped))"
	@cmake --build --preset $(CUDA_PRESET) --parallel $(JOBS) --target nccl ccld-validate ccld_validate_in_job
	@echo "build/$(CUDA_PRESET)/nccl/lib/libnccl.so.2"

# A few functions, so that the device patches always compile with nvcc.
nccl-small: bootstrap
	@if ! PATH=$$PATH$$(printf ':%s/bin' $$CUDA_HOME $$CUDA_PATH /usr/local/cuda*) command -v nvcc >/dev/null; then echo "no nvcc: the build for GPUs is not checked"; else \
	  scripts/configure cuda-small && cmake --build --preset cuda-small --parallel $(JOBS) --target nccl && \
	  { scripts/check-abi --if-stock build/cuda-small/nccl/lib/libnccl.so.2 || [ $$? = 77 ]; }; fi

install-nccl: nccl ## Install it for programs to build against, as NVIDIA's package has it (PREFIX=/usr/local)
	@cmake --install build/$(CUDA_PRESET) --component nccl --prefix $(or $(PREFIX),/usr/local)

# What is handed out: `ccld` of the preset release, and the library for GPUs or, with DEVICE=cpu, that of the same tree.
LIBRARY_BUILD := build/$(if $(filter cpu,$(DEVICE)),release,$(CUDA_PRESET))
release-parts: bootstrap $(if $(filter cpu,$(DEVICE)),,nccl)
	@scripts/configure release
	@cmake --build --preset release --parallel $(JOBS) --target ccld ccld_pages $(if $(filter cpu,$(DEVICE)),nccl ccld-validate ccld_validate_in_job)

install: release-parts ## Install service and library, the library in PREFIX/lib/ccld (PREFIX=/usr/local DESTDIR=; DEVICE=cpu)
	@cmake --install build/release --component ccld --prefix $(or $(PREFIX),/usr/local) --strip
	@cmake --install $(LIBRARY_BUILD) --component library --prefix $(or $(PREFIX),/usr/local) --strip

release: release-parts ## Debian packages, archive and SHA256SUMS in build/dist (DEVICE=cpu)
	@scripts/release --library $(LIBRARY_BUILD)

check-abi: $(if $(LIBRARY),bootstrap,nccl) ## Can it stand in for the toolkit's own libnccl.so.2? (LIBRARY=path: another than that of make nccl)
	@scripts/check-abi $(or $(LIBRARY),build/$(CUDA_PRESET)/nccl/lib/libnccl.so.2)

demo: configure ## Plant a fault of each class and see it found (one of them: FAULT=h3)
	@cmake --build --preset dev --parallel $(JOBS) --target demo_parts
	@scripts/demo --build $(BUILD) $(if $(FAULT),--fault $(FAULT))

demo-web: configure ## The same job with its page, and buttons that plant faults, until Ctrl-C (PAGE_PORT=5580 CONTROL_PORT=5581)
	@cmake --build --preset dev --parallel $(JOBS) --target demo_parts
	@scripts/demo-web --build $(BUILD) $(if $(PAGE_PORT),--page-port $(PAGE_PORT)) $(if $(CONTROL_PORT),--control-port $(CONTROL_PORT))

demo-mitigate: configure ## A GPU becomes slow, the service advises, the job takes it: promised beside measured (FACTOR=3)
	@cmake --build --preset dev --parallel $(JOBS) --target demo_parts
	@scripts/demo-mitigate --build $(BUILD) $(if $(FACTOR),--factor $(FACTOR))

demo-cluster: configure ## Three services as one: a rank hangs, the node that leads is killed, another goes on (nats-server; FAULT=h3)
	@cmake --build --preset dev --parallel $(JOBS) --target demo_parts
	@scripts/demo-cluster --build $(BUILD) $(if $(FAULT),--fault $(FAULT))

check: ## Check the direction of dependencies between the folders, and that no type is defined twice
	@scripts/check-includes
	@scripts/check-type-names

test: check build nccl-small ## Every test: unit and integration
	@ctest --preset dev --parallel $(TESTS_AT_ONCE) --no-label-summary

unit: build ## Unit tests only
	@ctest --preset unit --parallel $(JOBS) --no-label-summary

integration: build ## Tests with real NCCL processes and real faults only
	@ctest --preset integration --no-label-summary

sim: configure ## Simulated clusters: the verdict must equal the planted fault (SEEDS=10000 FIRST_SEED=1)
	@cmake --build --preset dev --parallel $(JOBS) --target ccld_sim
	@$(BUILD)/test/sim/ccld_sim --from-start --pipeline-links --jobs $(JOBS) --seeds $(or $(SEEDS),10000) --first-seed $(or $(FIRST_SEED),1)

fuzz: ## Fuzz every decoder for SECONDS=60 each (libFuzzer, ASan, UBSan; skipped without clang 16 or later; ONLY=regex FRESH=1)
	@scripts/bootstrap --without-cuda
	@scripts/fuzz --jobs $(JOBS) --seconds $(or $(SECONDS),60) $(if $(ONLY),--only '$(ONLY)') $(if $(ONLY),,--out benchmarks/results/fuzz.json $(if $(FRESH),--fresh))

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

accuracy: configure ## Are the verdicts right? Both rule sets (6 minutes; FULL=1: all cases, 4 hours; SEED=2, ONLY=regex, REPLAY=1)
	@cmake --build --preset dev --parallel $(JOBS) --target demo_parts
	@benchmarks/accuracy/accuracy.py --build $(BUILD) $(if $(FULL),--full) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only '$(ONLY)') \
	  $(if $(REPLAY),--replay) $(if $(AT_A_TIME),--jobs $(AT_A_TIME))

ablate: configure ## Which settings of the rules for slowness matter? (SEEDS=100; QUICK=1: seconds; ONLY=regex)
	@cmake --build --preset dev --parallel $(JOBS) --target ccld ccld_sim
	@benchmarks/ablation/ablate.py --build $(BUILD) --jobs $(JOBS) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(ONLY),--only '$(ONLY)') $(if $(QUICK),--quick)

bench-overhead: configure ## What the probe costs, against upstream's own NCCL (10 minutes; QUICK=1: two)
	@scripts/configure pristine
	@cmake --build --preset pristine --parallel $(JOBS) --target nccl
	@cmake --build --preset dev --parallel $(JOBS) --target bench_parts
	@python3 benchmarks/overhead/bench_overhead.py --build $(BUILD) --pristine build/pristine \
	  $(if $(QUICK),--quick --out build/overhead-quick.json,--out benchmarks/results/overhead-cpu.json)

bench-scale: configure ## What the service needs for 1,024 to 131,072 ranks (15 minutes; QUICK=1: seconds)
	@cmake --build --preset dev --parallel $(JOBS) --target ccld-bench-scale
	@python3 benchmarks/scale/bench_scale.py --build $(BUILD) \
	  $(if $(QUICK),--quick --out build/scale-quick.json,--out benchmarks/results/scale.json)

check-ptxas: ## Registers, stack and spills of the GPU kernels, against upstream's own (needs nvcc, no GPU; ARCHITECTURE=100: another than sm_90)
	@scripts/bootstrap
	@python3 benchmarks/ptxas/check_ptxas.py --jobs $(JOBS) --architecture $(or $(ARCHITECTURE),90) --out benchmarks/results/ptxas-sm$(or $(ARCHITECTURE),90).json

check-sass: ## Instructions, loads, stores, fences and atomics around and in the data path, against upstream's own (needs nvcc, no GPU)
	@scripts/bootstrap
	@python3 benchmarks/sass/check_sass.py --jobs $(JOBS) --out benchmarks/results/sass.json

chaos: configure ## A job, the service and faults of both, drawn from seeds: verdict, training, leftovers, speed (root; SEEDS=60 FIRST_SEED=1; SEED=17: one again; QUICK=1)
	@cmake --build --preset dev --parallel $(JOBS) --target chaos_parts
	@benchmarks/chaos/chaos.py --build $(BUILD) --seeds $(or $(SEEDS),60) $(if $(FIRST_SEED),--first-seed $(FIRST_SEED)) \
	  $(if $(SEED),--seed $(SEED)) $(if $(QUICK),--quick) --out $(if $(SEED)$(QUICK),build/chaos.json,benchmarks/results/chaos.json)

check-kills: configure ## kill -9 of the service in the middle of incidents, and of ranks: is a revision lost, the wrong one named, anything left? (10 minutes; KILLS=100 RANK_KILLS=50 SEED=1)
	@cmake --build --preset dev --parallel $(JOBS) --target ccld ccld_serve_tests ccld-workload nccl
	@python3 benchmarks/kills/check_kills.py --build $(BUILD) --kills $(or $(KILLS),100) --out benchmarks/results/kills.json
	@python3 benchmarks/kills/check_rank_kills.py --build $(BUILD) --kills $(or $(RANK_KILLS),50) --seed $(or $(SEED),1) --out benchmarks/results/rank_kills.json

check-cluster: configure ## Nodes of a cluster killed, stopped and ended while faults come and go: is an incident lost, doubled or different? (20 minutes; FAILOVERS=100 SEED=1)
	@cmake --build --preset dev --parallel $(JOBS) --target ccld ccld_cluster_integration_tests
	@python3 benchmarks/cluster/check_cluster.py --build $(BUILD) --failovers $(or $(FAILOVERS),100) --seed $(or $(SEED),1) --out benchmarks/results/cluster.json

check-strangers: configure ## Thousands of strangers at the ports of the service: is a fault found as soon as without them? (11 minutes; MINUTES=10; QUICK=1)
	@cmake --build --preset dev --parallel $(JOBS) --target ccld ccld-bench-strangers
	@python3 benchmarks/strangers/check_strangers.py --build $(BUILD) \
	  $(if $(QUICK),--quick --out build/strangers-quick.json,--minutes $(or $(MINUTES),10) --out benchmarks/results/strangers.json)

check-validate: configure ## Are planted slow GPUs, paths and network devices confirmed by ccld-validate, and healthy machines cleared? (root; half an hour; CASES=40 MINUTES=60 SEED=1; QUICK=1)
	@cmake --build --preset dev --parallel $(JOBS) --target ccld-validate
	@benchmarks/validate/check_validate.py --build $(BUILD) $(if $(SEED),--seed $(SEED)) \
	  $(if $(QUICK),--quick --out build/validate-quick.json,--cases $(or $(CASES),40) --minutes $(or $(MINUTES),60) --out benchmarks/results/validate.json)

check-in-job: configure ## Hardware tests in running jobs, some disturbed in the middle: is each right, and does training go on? (half an hour; TESTS=200 SEED=1 HOLD_S=5)
	@cmake --build --preset dev --parallel $(JOBS)
	@benchmarks/validate/check_in_job.py --build $(BUILD) --tests $(or $(TESTS),200) --seed $(or $(SEED),1) --hold-s $(or $(HOLD_S),5) \
	  --out benchmarks/results/validate_in_job.json

gpu-verify: configure ## All checks that want a GPU, ten minutes (BUNDLE=file.tar.xz: pack them for a machine that has one; QUICK=1)
	@cmake --build --preset dev --parallel $(JOBS) --target ccld
	@for preset in cuda cuda-pristine; do \
	  scripts/configure $$preset "-DCCLD_NVCC_GENCODE=$(or $(NVCC_GENCODE),-gencode=arch=compute_90$(COMMA)code=sm_90)" && cmake --build --preset $$preset --parallel $(JOBS) --target gpu_verify_parts || exit 1; done
	@scripts/gpu-verify $(if $(QUICK),--quick) $(if $(BUNDLE),--bundle '$(BUNDLE)')

image: configure ## Container image build/image/ccld.oci.tar (LIBNCCL=path/to/libnccl.so.2; ENGINE=docker: with the Dockerfile)
	@cmake --build --preset dev --parallel $(JOBS) --target ccld nccl
	@scripts/image/build --build $(BUILD) $(if $(LIBNCCL),--nccl '$(LIBNCCL)') $(if $(ENGINE),--engine '$(ENGINE)')

image-test: image ## Check the image, and find a fault with its service and its library (root; runc, umoci)
	@cmake --build --preset dev --parallel $(JOBS) --target demo_parts
	@python3 -B test/integration/image/image_test.py $(BUILD) build/image

format: ## Format all sources with clang-format
	@scripts/format

tidy: configure ## Run clang-tidy over our own sources
	@scripts/tidy $(BUILD)

clean: ## Remove the build trees; upstream's verified tarball in build/cache stays
	@find build -mindepth 1 -maxdepth 1 ! -name cache -exec rm -rf {} + 2>/dev/null || true
