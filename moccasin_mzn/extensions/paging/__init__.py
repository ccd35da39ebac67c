"""Slow memory beside recomputation (POET, Patil et al., ICML 2022): outputs are written out and read back."""
