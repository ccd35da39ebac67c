"""The least duration for every budget: the Pareto frontier of duration against memory.

`points` defines the frontier, `questions` what a variant of the problem has to answer and how each answer is carried to
the other budgets, `sweep` spends the time, `variants` solves in one memory or in several.
"""
