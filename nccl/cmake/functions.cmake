# Which device functions the CPU device's build has. Included by nccl/CMakeLists.txt.
#
# Building every function would take about an hour of processor time. This set covers what training jobs mostly run,
# with every algorithm and protocol that the CPU device can reach; using another one ends the process with a line that
# names it. The grammar is upstream's ONLY_FUNCS. Integer sums and products are built once per width, for signed and
# unsigned numbers alike, but both names have to be selected.
set(ccld_default_functions
  "SendRecv"
  "AllGather (RING|PAT) *"
  "AllGatherV RING *"
  "Broadcast RING *"
  "AllReduce Sum (f32|f64|f16|bf16|i32|u32|i8|u8) (RING|TREE) *"
  "AllReduce (Prod|MinMax|PreMulSum) f32 (RING|TREE) *"
  "ReduceScatter Sum f32 (RING|PAT) *"
  "Reduce Sum f32 RING *")
list(JOIN ccld_default_functions "|" ccld_default_functions)
set(CCLD_NCCL_ONLY_FUNCS "${ccld_default_functions}" CACHE STRING
    "Device functions to build for the CPU device, in upstream's ONLY_FUNCS grammar (empty: all, which takes an hour)")
