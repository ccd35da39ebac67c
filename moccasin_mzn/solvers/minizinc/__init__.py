"""MiniZinc: data files, solvers, runs."""
