"""Makes scripts/gpu_verify and what it is made of importable."""
import os
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
sys.path[:0] = [os.path.join(ROOT, "scripts"), os.path.join(ROOT, "benchmarks", "gpu"), os.path.join(ROOT, "test", "support")]
