"""Makes the chaos benchmark, what it takes from the accuracy benchmark, and the harness importable."""
import os
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
sys.path[:0] = [os.path.join(ROOT, "benchmarks", "chaos"), os.path.join(ROOT, "benchmarks", "accuracy"), os.path.join(ROOT, "test", "support")]
