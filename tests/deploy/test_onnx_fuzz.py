"""Random networks of all kinds of layers in parts and in random schedules, as in `scripts/fuzz_onnx_parts.py`."""

from __future__ import annotations

import pytest
from few import few
from script_loading import load_script

NETWORKS, FUZZ = load_script("onnx_networks"), load_script("fuzz_onnx_parts")


@pytest.mark.parametrize("first", few(range(0, 600, 5), keep=1))
def test_random_networks_in_parts_are_equal_or_refused_before_they_run(tmp_path, first):
    """With the shapes that are planned, and the peak; nothing is left to the check of a new model."""
    equal = 0
    for seed in range(first, first + 5):
        for found in FUZZ.results(NETWORKS.network(seed), tmp_path):
            assert found == FUZZ.EQUAL or found.startswith("refused: "), (seed, found)
            equal += found == FUZZ.EQUAL
    assert equal >= 10


def test_networks_are_of_every_operator_set_rank_and_batch():
    made = [NETWORKS.network(seed) for seed in range(40)]
    assert {net.version for net in made} == {*NETWORKS.versions()}
    shapes = {net.values["x"].shape for net in made}
    assert {len(shape) for shape in shapes} == {3, 4, 5} and {shape[0] for shape in shapes} == {1, 2}
    assert {1} <= {shape[1] for shape in shapes} and any(1 in shape[2:] for shape in shapes)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_networks_are_the_same_again(seed):
    one, other = (NETWORKS.network(seed).model().SerializeToString() for _ in range(2))
    assert one == other
