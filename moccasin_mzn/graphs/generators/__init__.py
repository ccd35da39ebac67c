"""Synthetic computation graphs.

Of networks: `layers` says what one layer puts out and costs, `network` joins layers to a forward graph, `architectures`
describe networks, `checkmate` adds the backward pass, and `catalogue` has them all by name.

Of no network: `random_layered`, `random_dag`, `u_shaped` and `chain`.
"""
