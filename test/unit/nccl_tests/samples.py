"""Outputs as the versions of nccl-tests lay them out, with numbers of our own."""

OLD = """\
# nThread 1 nGpus 2 minBytes 32768 maxBytes 65536 step: 2(factor) warmup iters: 5 iters: 20 validation: 1
#
# Using devices
#   Rank  0 Pid   1320 on     node-a device  0 [0x3b] Some GPU 16GB
#   Rank  1 Pid   1320 on     node-a device  1 [0x86] Some GPU 16GB
#
#                                                     out-of-place                       in-place
#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
       32768          8192   float     sum    13.57    2.41    2.41  5e-07    11.85    2.77    2.77  5e-07
       65536         16384   float     sum    16.57    3.96    3.96  5e-07    13.83    4.74    4.74  0e+00
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 3.47
#
"""

# Broadcasts of old versions have no reduction: the column is blank.
OLD_BLANK = """\
#                                                     out-of-place                       in-place
#       size         count    type    root     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
       32768          8192   float       0    13.57    2.41    2.41  0e+00    11.85    2.77    2.77  0e+00
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 2.59
"""

V2_13 = """\
# nThread 1 nGpus 4 minBytes 8 maxBytes 1048576 step: 131072(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid   4711 on     node-a device  0 [0x0f] Some GPU
#  Rank  1 Group  0 Pid   4711 on     node-a device  1 [0x10] Some GPU
#  Rank  2 Group  0 Pid   4711 on     node-a device  2 [0x1f] Some GPU
#  Rank  3 Group  0 Pid   4711 on     node-a device  3 [0x20] Some GPU
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    21.35    0.00    0.00      0    20.98    0.00    0.00      0
     1048576        262144     float     sum      -1    41.50   25.27   37.90      0    41.10   25.51   38.27      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 19.0425
#

"""

UNCHECKED = V2_13.replace("      0    2", "    N/A    2").replace("      0    4", "    N/A    4").replace("   0\n", " N/A\n").replace("      0\n", "    N/A\n")

WRONG = """\
# nccl-tests version 2.17.2 nccl-headers=22803 nccl-library=22907
# Collective test starting: all_gather_perf
# nThread 1 nGpus 2 minBytes 1024 maxBytes 1024 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid 1666603 on     node-a device  0 [000f:01:00] Some GPU
#  Rank  1 Group  0 Pid 1666603 on     node-a device  1 [0010:01:00] Some GPU
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
        1024           128     float    none      -1    12.80    0.08    0.04       0    12.80    0.08    0.04      96
# Out of bounds values : 1 FAILED
# Avg bus bandwidth    : 0.04
#
# Collective test concluded: all_gather_perf
#
"""

TIMESTAMPS = """\
# nccl-tests version 2.17.2 nccl-headers=22803 nccl-library=22907
# Collective test starting: all_reduce_perf
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong           timestamp
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         %Y-%m-%d %H:%M:%S
     1048576        262144     float     sum      -1    41.50   25.27   25.27       0    41.10   25.51   25.51       0  2026-01-31 12:00:01
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 25.39
"""

ITERATIONS = """\
# nccl-tests version 2.20.0 nccl-headers=22907 nccl-library=22907
# Collective test starting: all_reduce_perf
# Per-Iteration Report: CUDA event timing; i_* uses max over process rows
#
#                                                        out-of-place (+ per-iteration)                                in-place (+ per-iteration)
#       size         count      type   redop    root     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)     (us)     (us)      (%)     (us)  (GB/s)  (GB/s)             (us)     (us)     (us)      (%)
     1048576        262144     float     sum      -1    41.50   25.27   25.27       0    40.10    44.00    43.90     1.20    41.10   25.51   25.51       0    40.00    43.10    42.90     1.10
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 25.39
# GPU memory usage     : NCCL 1.10 GB | Total  1.10 GB
# Collective test concluded: all_reduce_perf
"""

# What Send and Recv print: nobody looks at results in place.
SEND_RECV = """\
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
   536870912     134217728     float     sum      -1    40960   13.11   13.11       0    40800   13.16   13.16     N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 13.1321
"""

FAILED = """\
# nccl-tests version 2.17.2 nccl-headers=22803 nccl-library=22907
# Collective test starting: all_reduce_perf
#
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
        1024           256     float     sum      -1node-a: Test NCCL failure common.cu:462 'remote process exited or there was a network error / '
 .. node-a pid 4711: Test failure common.cu:611
"""
