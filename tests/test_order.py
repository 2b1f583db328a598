"""The order of operations: the same list, with fewer values alive at once."""

import numpy as np
import pytest

import icvi_jax as icvi
from icvi_jax.engine.lowering.schedule import most_alive, ordered
from icvi_jax.engine.lowering.ssa import Flat, Lane, flatten
from icvi_jax.gpu_check import kernel_of

F32 = np.dtype(np.float32)


def operation(*args, name="add"):
    return Lane(name, F32, args, None, False)


def test_values_alive_are_counted():
    x, y = (Lane("input", F32, (), (i,), False) for i in range(2))
    shared = Lane("input", F32, (), (2,), True)  # the same for all streams: no register of a thread's own
    lanes = [x, y, shared, operation(0, 2), operation(0, 1), operation(3, 4), operation(5, 3)]
    assert most_alive(Flat(lanes, [6], [])) == 3  # x, y and x + shared
    assert most_alive(Flat(lanes, [6, 0, 1], [])) == 4  # x and y go on
    assert most_alive(Flat(lanes, [], [6])) == 3  # what leaves at once has a register until then


def test_products_are_made_where_they_are_summed():
    inputs = [Lane("input", F32, (), (i,), False) for i in range(2)]
    products = [operation(0, 1, name=f"product {i}") for i in range(16)]
    sums = [operation(2 if i == 0 else 17 + i, 3 + i) for i in range(15)]
    flat = Flat([*inputs, *products, *sums], [32], [])
    better = ordered(flat)
    assert (most_alive(flat), most_alive(better)) == (17, 4)
    assert sorted(lane.name for lane in better.lanes) == sorted(lane.name for lane in flat.lanes)


@pytest.mark.parametrize(
    "clusterer, most", [(icvi.SequentialKMeans(k=10), 175), (icvi.OnlineEllipsoidal(capacity=8), 250)]
)
def test_a_step_in_order_is_the_same_list_and_needs_few_registers(clusterer, most):
    pipe = icvi.Pipeline(clusterer=clusterer, panel=icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin())))
    made = kernel_of(pipe, 2, ("values",))
    flat, was = made.flat, flatten(made.unrolled, contract=True)
    assert all(a < i for i, lane in enumerate(flat.lanes) for a in lane.args)

    def forms(flat):  # of each operation, whatever its place: names of what it is made of, three deep
        names = [lane.name for lane in flat.lanes]
        for _ in range(3):
            names = [hash((lane.name, tuple(names[a] for a in lane.args))) for lane in flat.lanes]
        return names

    new, old = forms(flat), forms(was)
    assert sorted(new) == sorted(old)
    assert [new[i] for i in flat.after] == [old[i] for i in was.after]
    assert [new[i] for i in flat.outputs] == [old[i] for i in was.outputs]
    assert most_alive(flat) <= most < most_alive(was)
