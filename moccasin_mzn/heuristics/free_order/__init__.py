"""The order of computations chosen together with the recomputations: any sequence at all, no stages."""
