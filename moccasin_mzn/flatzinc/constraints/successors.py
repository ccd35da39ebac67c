"""Constraints on arrays of successors: circuit, subcircuit, inverse."""
