"""All checks that want a GPU, in one run: what scripts/gpu-verify consists of. Standard library only."""
