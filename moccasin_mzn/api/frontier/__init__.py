"""The least duration for every budget: the Pareto front of duration against memory.

`points` says what a front is, `questions` what a variant of the problem has to answer, `knowledge` carries each answer
to the other budgets, `least` seeks the least feasible budget, `sweep` spends the time, `solving` asks `solve_instance`.
"""
