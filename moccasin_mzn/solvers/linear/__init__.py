"""FlatZinc of linear constraints as a mixed integer program: for HiGHS, for SCIP, and its relaxation.

FlatZinc text -> `flatzinc.parser` -> `program` -> `search` (`highs` or `scip`, `check`) -> solution stream on stdout.
Run as `python -m moccasin_mzn.solvers.linear --engine highs|scip [flags] FILE.fzn`. MiniZinc writes such FlatZinc for
solvers whose library is its own `linear`, which rewrites all else as linear constraints; `configuration` describes ours
to it.
"""
