"""Runs a user's nccl-tests binaries under our library and the decision service; reads what they print.

`output` and `checks` are pure; `binaries` looks at files; `job` and `progress` run things; `possible` says which faults can be
planted. The fault plans, what plants them and what judges the verdicts are the harness's (test/support).
"""
