"""PyTorch jobs on our NCCL, with faults: how a torch is made to use it, how its ranks are started, watched and judged. See scripts/README.md.

`rank/` is what runs inside of the ranks. Standard library only, but for torch in `rank/torch_engine.py`.
"""
