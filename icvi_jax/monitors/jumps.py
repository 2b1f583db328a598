r"""Jumps: a view of a feature for signals with memory; it only uses the last four values.

A signal with memory is far from its mean of an hour ago most of the time, but from one sample to the next it hardly
moves. So a step that is small compared with the spread of the signal is large compared with its moves. The *gap* J is
the distance between the range of the last two values and that of the two before, 0 where they overlap: two of each, so
that one outlier is not a jump. Its contrast is :math:`J^2/u`, with u the variance of a sample from its neighbours: half
the mean square of their differences, and at least .03 v.

In white noise u is v, the variance about the mean before. With memory it is smaller, and v is too small for the errors
of means: the y of all other views is multiplied by :math:`(r/(2−r))^{3/8}`, r = u/v ≤ 1, so that they count less with
more memory.
"""

from __future__ import annotations

from icvi_jax.monitors.means import SURE, Variance, learn
from icvi_jax.numerics.arrays import larger, namespace, smaller
from icvi_jax.types import Array

LEAST = 0.03
"""Smallest u as a share of v: in a signal that hardly ever moves, a small move is not a jump."""

BACK = 3
"""Rows before this one that are used."""


def check(lag: int, season: int) -> None:
    """Refuse settings of `Change` with which jumps cannot be used."""
    if lag < BACK:
        raise ValueError(f"Change(lag={lag}, jumps=True): jumps need a lag of {BACK} rows or more")
    if season:  # measured: at 1e-3 over twice as many on Beijing, over 1.5 times on Grand St Bernard
        raise ValueError(
            f"Change(season={season}, jumps=True): together they raise more false alarms than promised; choose one of "
            f"them: season where there is a cycle, jumps for other signals with memory"
        )


def take(
    rough: Variance, x: Array, ring: Array, able: Array, moves: Array, v: Array, steady: Array
) -> tuple[Variance, Array, Array, Array]:
    """Process a row.

    Parameters
    ----------
    rough : half the mean square of differences so far.
    x : (p, *streams), the values.
    ring : (lag, p, *streams), the rows before, the oldest first; NaN in holes.
    able : (p, *streams), whether there may be a contrast.
    moves : (p, *streams), where the last two rows of the ring are of one regime of a feature that is alive.
    v : (p, *streams), the variance about the mean before; 0 while unknown.
    steady : forgetting of variances.

    Returns
    -------
    rough
    y : (p, *streams), the fourth root of the contrast; 0 where there is none.
    known : (p, *streams), whether there is one.
    scale : (p, *streams), the factor for the y of other views.
    """
    xp = namespace(x)
    first, second, third = (ring[-k, ...] for k in range(1, BACK + 1))
    zero, one = xp.zeros_like(x), xp.ones_like(x)
    moves = moves & ~xp.isnan(first + second)
    step = xp.where(moves, first - second, zero)
    rough = learn(rough, step * step / 2, moves, steady)

    sure = (rough.learned >= SURE) & (v > 0)
    known = able & sure & ~xp.isnan(first + second + third)
    u = xp.where(sure, larger(rough.value, LEAST * v), one)
    rise = smaller(x, first) - larger(second, third)
    fall = smaller(second, third) - larger(x, first)
    gap = xp.where(known, larger(larger(rise, fall), zero), zero)

    r = xp.where(sure, smaller(u / xp.where(sure, v, one), one), one)
    root = xp.sqrt(xp.sqrt(r / (2 - r)))
    return rough, xp.sqrt(gap / xp.sqrt(u)), known, root * xp.sqrt(root)
