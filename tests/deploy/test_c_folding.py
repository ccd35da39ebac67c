"""Shapes that a network computes are known: they become constants, and what cannot be known is named."""

from __future__ import annotations

import c_programs
import int8_networks
import numpy as np
import pytest

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.deploy.c.folding import folded
from moccasin_mzn.deploy.c.network import _tensors


class Net(int8_networks.Builder):
    """A network whose shapes are computed, as Keras writes them."""

    def shape_of(self, x: int) -> int:
        return self.operator("SHAPE", (x,), self.tensor((len(self.shape(x)),), kind="INT32"), "ShapeOptions", outType=2)

    def sliced(self, x: int, begin: int, end: int, step: int = 1, count: int | None = None, **masks: int) -> int:
        """Elements of one axis; without a count one of them."""
        read = (x, *(self.integers([value]) for value in (begin, end, step)))
        about = {"beginMask": 0, "endMask": 0, "shrinkAxisMask": int(count is None), **masks}
        made = self.tensor(() if count is None else (count,), kind="INT32")
        return self.operator("STRIDED_SLICE", read, made, "StridedSliceOptions", **about)

    def packed_of(self, *read: int) -> int:
        made = self.tensor((len(read),), kind="INT32")
        return self.operator("PACK", read, made, "PackOptions", valuesCount=len(read), axis=0)

    def number(self, value: int) -> int:
        return self.tensor((), kind="INT32", values=np.array(value, np.int32))

    def reshaped_to(self, x: int, of: int, shape: tuple[int, ...]) -> int:
        return self.operator("RESHAPE", (x, of), self.tensor(shape, self.scale(x), -1), "ReshapeOptions", newShape=[])


def as_trained() -> bytes:
    """Reshaped to the number of images, read from the shape of an input and of a layer, and to numbers or the rest."""
    net = Net(0, 1, 24)
    x = net.dense(net.input, 12)
    first = net.packed_of(net.sliced(net.shape_of(net.input), 0, 1), net.number(2), net.number(2), net.number(3))
    y = net.convolution(net.reshaped_to(x, first, (1, 2, 2, 3)), 4)
    images = net.sliced(net.shape_of(y), -4, 0, endMask=1)
    return net.packed(net.dense(net.reshaped_to(y, net.packed_of(images, net.number(-1)), (1, 16)), 5))


@pytest.mark.skipif(c_programs.compiler is None, reason="no C compiler")
def test_shapes_become_constants(tmp_path):
    net = c_programs.network(as_trained(), tmp_path)
    assert [layer.kernel.function for layer in net.layers.values()] == [
        "dense", "reshape", "convolution", "reshape", "dense",
    ]  # fmt: skip
    assert c_programs.run(c_programs.in_order(net), tmp_path, 3).startswith("3 of 3 outputs are equal")


@pytest.mark.parametrize(
    ("begin", "end", "step", "masks", "right"),
    [
        (1, 3, 1, {}, [5, 7]), (0, 4, 2, {}, [3, 7]), (-1, 0, -1, {"endMask": 1}, [2, 7, 5, 3]),
        (9, -2, 1, {"beginMask": 1}, [3, 5]), (2, 2, 1, {}, []), (-2, 99, 1, {}, [7, 2]),
    ],
)  # fmt: skip
def test_slices_of_shapes_are_those_of_lists(begin, end, step, masks, right):
    net = Net(0, 3, 5, 7, 2)
    x = net.sliced(net.shape_of(net.input), begin, end, step, len(right), **masks)
    y = net.reshaped_to(net.input, x, (210,))
    net.graph.outputs = [y]
    model, kept = folded(net.model, _tensors(net.model))
    values = _tensors(model)[x].values
    assert kept == [2] and (values is None if right == [] else values.tolist() == right)


def test_one_element_of_a_shape_is_a_number():
    net = Net(0, 3, 5, 7, 2)
    x = net.sliced(net.shape_of(net.input), -2, 0)
    net.graph.outputs = [net.reshaped_to(net.input, net.packed_of(x, net.number(30)), (7, 30))]
    model, kept = folded(net.model, _tensors(net.model))
    assert kept == [3] and int(_tensors(model)[x].values) == 7


def test_what_is_not_known_is_named_by_its_position_in_the_file(tmp_path):
    net = Net(0, 1, 12)
    known = net.packed_of(net.sliced(net.shape_of(net.input), 0, 1), net.number(12))
    x = net.reshaped_to(net.input, known, (1, 12))
    shape = net.operator("CAST", (x,), net.tensor((12,), kind="INT32"), "CastOptions")
    y = net.reshaped_to(x, net.sliced(shape, 0, 2, 1, 2), (1, 12))
    with pytest.raises(InputError, match=r"operator 4, CAST .*operator 5, STRIDED_SLICE"):
        c_programs.network(net.packed(net.dense(y, 3)), tmp_path)


def test_a_shape_that_is_an_output_is_computed_by_no_kernel(tmp_path):
    net = Net(0, 1, 12)
    with pytest.raises(InputError, match="operator 1, SHAPE"):
        c_programs.network(net.packed(net.dense(net.input, 3), net.shape_of(net.input)), tmp_path)
