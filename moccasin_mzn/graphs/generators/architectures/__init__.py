"""Published networks, layer by layer: a module for each, with functions that return a network without a batch, and
`NETWORKS`, what the catalogue tells of them."""

MODULES = (
    "vgg", "resnet", "mobilenet", "densenet", "nasnet", "pnasnet", "randomly_wired", "segmentation", "transformer",
)  # fmt: skip
"""The modules, in the order of the catalogue."""
