"""Whatever solves a model: FlatZinc, CP-SAT, linear solvers, MiniZinc; knows nothing of rematerialization."""
