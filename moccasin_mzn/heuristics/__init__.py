"""Incumbents without a solver: compiled local search over sets of recomputations."""
