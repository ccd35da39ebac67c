"""A FlatZinc solver executable built on CP-SAT, run as `python -m moccasin_mzn.solvers.cpsat [flags] FILE.fzn`.

FlatZinc text -> `parser` -> `syntax` items -> `translate` -> CP-SAT model -> `run` -> solution stream on stdout.
The constraints it knows are the functions registered in `constraints`; `mznlib` declares to MiniZinc which of them
exist. `configuration` writes the `.msc` file by which MiniZinc finds the executable.
"""
