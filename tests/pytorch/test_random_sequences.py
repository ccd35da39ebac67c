"""Sequences that no search would find: anything is computed again anywhere, and nothing changes."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from odd_modules import ODD
from step_networks import NETWORKS
from step_runs import excess, made, planned, same, steps, twin

from moccasin_mzn.pytorch.instructions import peaks
from moccasin_mzn.pytorch.problem import Cut

EVERY = {**NETWORKS, **ODD}


def drawn(problem, chance):
    """The input order, with what has been computed before computed again at random."""
    sequence, again = [], []
    for node in problem.graph.input_order():
        sequence += [again[chance.randrange(len(again))] for _ in range(chance.choice([0, 0, 1, 2])) if again]
        sequence.append(node)
        if problem.most[node]:
            again.append(node)
    return tuple(sequence)


def all_again(problem):
    """The input order, and all of the forward pass once more, right before the backward pass."""
    order = list(problem.graph.input_order())
    cut = next(at for at, node in enumerate(order) if isinstance(problem.meanings[node], Cut))
    again = [node for node in order[:cut] if problem.most[node]]
    return (*order[: cut + 1], *again, *order[cut + 1 :])


@pytest.mark.parametrize("name", EVERY)
def test_random_sequences_keep_results(name):
    model, inputs = made(EVERY[name])
    whole = planned(model, inputs, "1TiB")
    other, fresh = twin(model, inputs)
    wanted = steps(other, other, fresh, 2)
    problem = whole.traced.problem
    for sequence in (drawn(problem, random.Random(1)), all_again(problem)):
        _, inputs = twin(model, inputs)
        found = replace(whole, sequence=sequence, peaks=peaks(whole.traced.linear(sequence)))
        before = {key: value.clone() for key, value in model.state_dict().items()}
        step = found.module()
        assert same(steps(model, step, inputs, 2), wanted)
        assert excess(found, step, inputs) == (0, 0)
        model.load_state_dict(before)
