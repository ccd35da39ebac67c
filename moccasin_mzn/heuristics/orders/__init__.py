"""Orders of the nodes, each computed once, of least peak memory: searches for them and bounds on them."""
