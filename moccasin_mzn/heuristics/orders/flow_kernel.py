"""Maximum flow, compiled: Dinic's algorithm on arcs in rows, without recursion and without allocation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from moccasin_mzn.heuristics.compiling import compiled

NOTHING, SOURCE, SINK = 0, 1, 2


class Network(NamedTuple):
    """Arcs, each with its reverse; the arcs out of node x are ptr[x] .. ptr[x + 1] - 1."""

    ptr: np.ndarray
    to: np.ndarray
    """int32: the head of each arc."""
    twin: np.ndarray
    """int64: the arc back."""
    capacity: np.ndarray
    """int64: what is given."""
    left: np.ndarray
    """int64: what is left of it."""
    role: np.ndarray
    """int8[nodes]: `NOTHING`, `SOURCE` or `SINK`; there may be many of each."""
    depth: np.ndarray
    """int32[nodes]: room for the work, as are the rest."""
    current: np.ndarray
    queue: np.ndarray
    path: np.ndarray


@compiled
def maximum_flow(network, enough):
    """The most that flows from the sources to the sinks; a flow of `enough` or more is not told from `enough`."""
    for arc in range(len(network.left)):
        network.left[arc] = network.capacity[arc]
    total = np.int64(0)
    while total < enough and _layers(network):
        for x in range(len(network.role)):
            network.current[x] = network.ptr[x]
        for x in range(len(network.role)):
            if network.role[x] == SOURCE:
                total += _push_from(network, x)
    return min(total, enough)


@compiled
def _layers(network):
    """Distances from the sources along arcs with something left; False if no sink is reached."""
    first = last = 0
    for x in range(len(network.role)):
        network.depth[x] = -1
        if network.role[x] == SOURCE:
            network.depth[x] = 0
            network.queue[last] = x
            last += 1
    reached = False
    while first < last:
        x = network.queue[first]
        first += 1
        for arc in range(network.ptr[x], network.ptr[x + 1]):
            y = network.to[arc]
            if network.left[arc] > 0 and network.depth[y] < 0:
                network.depth[y] = network.depth[x] + 1
                if network.role[y] == SINK:
                    reached = True
                else:
                    network.queue[last] = y
                    last += 1
    return reached


@compiled
def _push_from(network, source):
    """All that flows from one source along shortest paths."""
    total, length, x = np.int64(0), 0, source
    while True:
        if network.role[x] == SINK:
            amount = network.left[network.path[0]]
            for k in range(1, length):
                amount = min(amount, network.left[network.path[k]])
            total += amount
            back = length
            for k in range(length - 1, -1, -1):
                arc = network.path[k]
                network.left[arc] -= amount
                network.left[network.twin[arc]] += amount
                if network.left[arc] == 0:
                    back = k
            length = back
            x = network.to[network.twin[network.path[back]]]
        elif network.current[x] < network.ptr[x + 1]:
            arc = network.current[x]
            y = network.to[arc]
            if network.left[arc] > 0 and network.depth[y] == network.depth[x] + 1:
                network.path[length] = arc
                length += 1
                x = y
            else:
                network.current[x] += 1
        elif length == 0:
            return total
        else:
            length -= 1
            x = network.to[network.twin[network.path[length]]]
            network.current[x] += 1


@compiled
def mark(ptr, near, start, role, value, queue):
    """Set `role` of all that is reached from `start` by the rows `ptr`, `near`, and of `start`, to `value`."""
    first, last = 0, 1
    queue[0] = start
    role[start] = value
    while first < last:
        x = queue[first]
        first += 1
        for k in range(ptr[x], ptr[x + 1]):
            if role[near[k]] != value:
                role[near[k]] = value
                queue[last] = near[k]
                last += 1
