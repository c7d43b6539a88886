"""Makes the package of scripts/nccl-tests-faults and the harness importable."""
import os
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", "..", ".."))
for folder in ("scripts", os.path.join("test", "support")):
    sys.path.insert(0, os.path.join(ROOT, folder))

