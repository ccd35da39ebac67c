"""Constraints given by their tuples or by an automaton: table, regular."""
