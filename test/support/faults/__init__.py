"""Fault plans: what is wrong with a run, said as data and applied from outside the product. See README.md."""
