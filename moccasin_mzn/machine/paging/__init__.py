"""Slow memory together with recomputation (POET, Patil et al., ICML 2022): outputs are written out and read back."""

from moccasin_mzn.heuristics.compiled_searches import CompiledSearch

PAGING = CompiledSearch("search for paging", "moccasin_mzn.machine.paging.search")
