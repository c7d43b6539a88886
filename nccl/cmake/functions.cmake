# Which device functions a build has. Included by nccl/CMakeLists.txt.
#
# Building every function takes about an hour of processor time. These sets leave out what jobs hardly call; using another
# function ends with an error that names it. That of the CPU device has every algorithm and protocol that it can reach. That
# for GPUs has what PyTorch (DDP, FSDP), Megatron and vLLM call, by every algorithm that NCCL may choose for it
# (functions/recommended_set_test.py). The grammar is upstream's ONLY_FUNCS. Integer sums and products are built once per width, for signed and
# unsigned numbers alike, but both names have to be selected.
set(ccld_default_functions
  "SendRecv"
  "AllGather (RING|PAT|NVLS|COLLNET_DIRECT) *"
  "AllGatherV RING *"
  "Broadcast RING *"
  "AllReduce Sum f32 (NVLS_TREE|COLLNET_DIRECT|COLLNET_CHAIN) *"
  "AllReduce Sum (f32|f64|f16|bf16|i32|u32) (RING|TREE|NVLS) *"
  "AllReduce Sum (i8|u8) (RING|TREE) *"  # which NVLS cannot add
  "AllReduce Sum (i64|u64) RING *"  # without TREE: a test that the others are taken then
  "AllReduce (Prod|MinMax|PreMulSum) f32 (RING|TREE) *"
  "ReduceScatter Sum f32 (RING|PAT|NVLS|COLLNET_DIRECT) *"
  "Reduce Sum f32 RING *")
if(CCLD_NCCL_DEVICE STREQUAL "cuda")
  set(ccld_default_functions
    "SendRecv"
    "AllGather *"
    "AllGatherV RING *"
    "Broadcast RING *"
    "AllReduce Sum (f32|f16|bf16) *"
    "AllReduce Sum (f64|i32|u32|i64|u64) (RING|TREE|NVLS|NVLS_TREE) *"
    "AllReduce Sum (i8|u8) (RING|TREE) *"
    "AllReduce MinMax (f32|f64|f16|bf16|i32|u32|i64|u64|i8|u8) (RING|TREE) *"
    "AllReduce PreMulSum (f32|f16|bf16) (RING|TREE) *"
    "ReduceScatter Sum (f32|f16|bf16) *"
    "ReduceScatter Sum (i32|u32|i64|u64) RING *"
    "ReduceScatter PreMulSum (f32|f16|bf16) (RING|PAT) *"
    "Reduce Sum (f32|f16|bf16|i32|u32|i64|u64) RING *"
    "Reduce PreMulSum (f32|f16|bf16) RING *")
endif()
list(JOIN ccld_default_functions "|" ccld_default_functions)
# A build folder that has the default of another day gets today's.
if(DEFINED CACHE{CCLD_NCCL_DEFAULT_FUNCS} AND CCLD_NCCL_ONLY_FUNCS STREQUAL CCLD_NCCL_DEFAULT_FUNCS)
  unset(CCLD_NCCL_ONLY_FUNCS CACHE)
endif()
set(CCLD_NCCL_DEFAULT_FUNCS "${ccld_default_functions}" CACHE INTERNAL "What CCLD_NCCL_ONLY_FUNCS is if nobody sets it")
set(CCLD_NCCL_ONLY_FUNCS "${ccld_default_functions}" CACHE STRING
    "Device functions to build, in upstream's ONLY_FUNCS grammar (empty: all, which takes an hour)")
