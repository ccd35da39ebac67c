"""Synthetic computation graphs.

`layers` says what one layer puts out and costs, `network` joins layers to a forward graph, `architectures` and
`randomly_wired` describe networks, and `checkmate` adds the backward pass. `random_layered` makes graphs of no network.
"""
