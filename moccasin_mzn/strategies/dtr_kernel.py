"""Compiled: what the evicted relatives of many outputs cost.

The functions call no others, so that the compiled code kept on disk is forgotten whenever it is outdated.
"""

from __future__ import annotations

import numpy as np

from moccasin_mzn.heuristics.compiling import compiled

WORD = 64
"""Bits in a word."""


@compiled
def add_evicted_relatives(arrays, evicted, wanted, newest, downwards, table, reached, relatives, cost):
    """Add to `cost[v]`, for every wanted v, the durations of its evicted ancestors (and descendants).

    Those are the evicted nodes reached from v along inputs (readers), walking on through evicted nodes only: one pass
    along the order, in which every evicted or wanted node unites what its evicted inputs reach; one pass back.

    Args:
        arrays: of a `GraphArrays`: pred_ptr, pred, succ_ptr, succ.
        evicted, wanted: bool[n].
        newest: no node from here on is evicted or wanted.
        downwards: whether descendants count.
        table: int64[bytes, 256]; total duration of the nodes 8 k + i for the bits i of a byte in place k.
        reached, relatives: room, uint64[n, words]; bit u % 64 of word u / 64 stands for node u.
        cost: int64[n].
    """
    pred_ptr, pred, succ_ptr, succ = arrays
    words, one = reached.shape[1], np.uint64(1)
    for v in range(newest):
        if evicted[v] or wanted[v]:
            for w in range(words):
                reached[v, w] = 0
            for edge in range(pred_ptr[v], pred_ptr[v + 1]):
                u = pred[edge]
                if evicted[u]:
                    for w in range(u // WORD + 1):  # ancestors of u have smaller numbers
                        reached[v, w] |= reached[u, w]
                    reached[v, u // WORD] |= one << np.uint64(u % WORD)
            for w in range(words):
                relatives[v, w] = reached[v, w]
    for v in range(newest - 1, -1, -1):
        if downwards and (evicted[v] or wanted[v]):
            for w in range(words):
                reached[v, w] = 0
            for edge in range(succ_ptr[v], succ_ptr[v + 1]):
                u = succ[edge]
                if evicted[u]:
                    for w in range(u // WORD, words):
                        reached[v, w] |= reached[u, w]
                    reached[v, u // WORD] |= one << np.uint64(u % WORD)
        if wanted[v]:
            for w in range(words):
                bits = relatives[v, w] | reached[v, w]  # without the pass back, `reached` still holds the ancestors
                for k in range(8):
                    cost[v] += table[8 * w + k, bits >> np.uint64(8 * k) & np.uint64(255)]


@compiled
def add_near_classes(near_ptr, near, class_of, class_cost, nodes, seen, cost):
    """Add to `cost[k]` the cost of all classes that have a member next to `nodes[k]`, each once.

    Args:
        near_ptr, near: inputs and readers of every node, in compressed sparse rows.
        class_of: int64[n]; -1: none.
        class_cost: int64[classes].
        seen: room, int64[classes].
        cost: int64, one for each of `nodes`.
    """
    for c in range(len(seen)):
        seen[c] = -1
    for k in range(len(nodes)):
        for edge in range(near_ptr[nodes[k]], near_ptr[nodes[k] + 1]):
            c = class_of[near[edge]]
            if c >= 0 and seen[c] != k:
                seen[c] = k
                cost[k] += class_cost[c]
