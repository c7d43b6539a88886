"""Runs a workload of several ranks under the decision service, plants faults and judges the verdicts.

Standard library only. See test/README.md.
"""
