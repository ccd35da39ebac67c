"""Annealing of sets of recomputations in stages of an order."""
