"""Published networks, layer by layer: a module for each, with `NETWORKS`: how to build a network without a
batch, and what the catalogue tells of it."""

MODULES = (
    "vgg", "resnet", "mobilenet", "densenet", "nasnet", "pnasnet", "randomly_wired", "segmentation", "transformer",
)  # fmt: skip
"""The modules, in the order of the catalogue."""
