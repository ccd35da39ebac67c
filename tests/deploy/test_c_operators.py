"""Kernels of C put out what LiteRT's reference kernels do, bit for bit: random operators, whole and in parts."""

from __future__ import annotations

import re

import c_programs
import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from int8_operator_cases import KINDS, models

from moccasin_mzn.base.errors import InputError

pytestmark = pytest.mark.skipif(c_programs.compiler is None, reason="no C compiler")
FEW, MANY = 2, 45
"""Random operators of each of 24 kinds, by default and in all; each is run whole and in parts."""


def judge(data: bytes, seed: int, folder) -> None:
    try:
        net = c_programs.network(data, folder)
    except InputError:  # LiteRT has no such operator
        reject()
    cuts = c_programs.random_cuts(net, np.random.default_rng(seed))
    for graph in (net.graph, net.cut(net.graph, cuts)):
        program = c_programs.stacked(net, graph)
        try:
            found = c_programs.run(program, folder, sets=2, seed=seed)
        except InputError:  # nor one whose limits do not fit into 32 bits
            reject()
        assert re.match(r"2 of 2 outputs are equal", found), found


@pytest.mark.parametrize("kind", [*KINDS])
@settings(max_examples=FEW)
@given(data=st.data())
def test_operators_put_out_what_the_reference_kernels_do(kind, data, tmp_path_factory):
    judge(data.draw(models(kind)), data.draw(st.integers(0, 2**32)), tmp_path_factory.mktemp("c"))


@pytest.mark.full
@pytest.mark.parametrize("kind", [*KINDS])
@settings(max_examples=MANY)
@given(data=st.data())
def test_many_operators_put_out_what_the_reference_kernels_do(kind, data, tmp_path_factory):
    judge(data.draw(models(kind)), data.draw(st.integers(0, 2**32)), tmp_path_factory.mktemp("c"))
