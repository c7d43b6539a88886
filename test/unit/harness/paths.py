"""Makes the harness importable."""
import os
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
SUPPORT = os.path.join(ROOT, "test", "support")
sys.path.insert(0, SUPPORT)
