"""Synthetic computation graphs.

Graphs of networks: `layers` has what one layer outputs and costs, `network` joins layers to a forward graph and adds
the backward pass, `architectures` describe networks, and `catalogue` has them all by name.

Graphs of no network: `random_layered`, and those of `families`.
"""
