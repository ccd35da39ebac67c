"""Published networks, layer by layer. Each module has `NETWORKS`: how to build a network without a batch, and what
its entry in the catalogue."""

MODULES = ("classification", "searched", "randomly_wired", "segmentation", "transformer")
"""The modules, in the order of the catalogue."""
