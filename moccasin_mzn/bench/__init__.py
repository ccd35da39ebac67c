"""Experiments: matrices of graphs, budgets and methods; run, stored, exported."""
