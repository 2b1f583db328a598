"""The laws of clusterers, each a function of a clusterer and a backend that raises AssertionError."""

from __future__ import annotations

import jax
import numpy as np

from icvi_jax.clusterers import Clusterer
from icvi_jax.clusterers.base import prototypes_of
from icvi_jax.numerics.arrays import usable
from icvi_jax.panel import layout
from icvi_jax.testing.backends import Backend, check_laws, kinds, steps
from icvi_jax.types import Diagnostics, Event, State


def samples(seed: int, n: int = 60, features: int = 2) -> np.ndarray:
    """Samples of three well separated clusters, one after the other: (n, features)."""
    rng = np.random.default_rng(seed)
    homes = np.array([[0.0] * features, [30.0] * features, [-30.0] + [30.0] * (features - 1)])
    return homes[np.arange(n) * 3 // n] + rng.normal(size=(n, features))


def follow(clusterer: Clusterer, X: np.ndarray, b: Backend) -> tuple[State, Event]:
    """The final state and the events, stacked, along X (T, p) or (T, p, N); rows with NaN are missing."""
    X = np.asarray(X)
    seen = usable(X).all(1)
    with b.precision():
        xp, dtype, streams = layout(b.xp, b.dtype, X.shape[2:])
        state = clusterer.init(X.shape[1], streams, xp, dtype)
        return steps(clusterer, state, (np.where(seen[:, None], X, 0.0), seen), b)


def _shown(events: Event) -> Diagnostics:
    assert events.shown is not None, "an event has no `shown`, which readings show"
    return events.shown


def _leaves(tree: object) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def events_are_sound(clusterer: Clusterer, b: Backend) -> None:
    """Memberships are shares of active slots, labels are active slots, and each step starts where the last one
    ended."""
    state, events = follow(clusterer, samples(1), b)
    k = clusterer.slots
    u, active, label = events.u, events.after.active, _shown(events).label
    assert u.shape[1:] == active.shape[1:] == (k,), f"u has the shape {u.shape[1:]}, the clusterer {k} slots"
    assert (u >= 0).all() and np.abs(u.sum(1) - 1).max() < 1e-4, f"memberships sum to {u.sum(1)}"
    assert not u[~active].any(), "an inactive slot has a membership"
    assert (label >= 0).all() and (label < k).all(), f"labels {np.unique(label)} with {k} slots"
    assert active[np.arange(len(label)), label].all(), "a label is an inactive slot"
    if clusterer.local:
        assert events.moved is not None, "it is local, and its events do not say which slots moved"
        old, new = events.before, events.after
        still = ~np.any([np.asarray(mask) for mask in events.moved], axis=0)
        same = (old.centers == new.centers).all(2) & (old.active == new.active) & (u == 0)
        assert all(mask.sum(1).max() <= 1 for mask in events.moved), "two slots in one mask of `moved`"
        assert same[still].all(), "a slot changed that is not in `moved`"
    for a, c in zip(_leaves(events.before), _leaves(events.after)):
        np.testing.assert_array_equal(a[1:], c[:-1], err_msg="a sample does not start where the one before it ended")
    told = prototypes_of(state)
    for field, mine, theirs in zip(told._fields, told, events.after):
        assert (mine is None) == (theirs is None), f"prototypes() and events do not both have {field}"
        if mine is not None and theirs is not None:
            np.testing.assert_array_equal(np.asarray(mine), theirs[-1], err_msg="the state is not the last event's")


def carry_is_stable(clusterer: Clusterer, b: Backend) -> None:
    """2: a step returns a state of the same structure, shapes and types."""
    with b.precision():
        xp, dtype, _ = layout(b.xp, b.dtype, ())
        start = clusterer.init(2, (), xp, dtype)
        end = follow(clusterer, samples(2, 12), b)[0]
        assert kinds(start, b) == kinds(end, b), f"the carry became {kinds(end, b)}"


def fleet_equals_loop(clusterer: Clusterer, b: Backend) -> None:
    """3: a fleet gives the same as each stream alone."""
    X = np.stack([samples(seed) for seed in range(3)], -1)
    X[7, 0, 1] = np.nan
    together = follow(clusterer, X, b)[1]
    for s in (1, 2):
        for a, c in zip(_leaves(follow(clusterer, X[..., s], b)[1]), _leaves(together)):
            a, c = a.astype(float), c[..., s].astype(float)
            np.testing.assert_allclose(c, a, rtol=b.tolerance, atol=b.tolerance, err_msg=f"stream {s} of a fleet")


def missing_changes_nothing(clusterer: Clusterer, b: Backend) -> None:
    """10: a missing sample never changes a bit of the state."""
    X = samples(3, 30)
    holes = np.insert(X, [0, 1, 4, 20], np.nan, axis=0)
    state, events = follow(clusterer, holes, b)
    for a, c in zip(_leaves(follow(clusterer, X, b)[0]), _leaves(state)):
        np.testing.assert_array_equal(a, c, err_msg="missing samples changed the state")
    gone = np.isnan(holes).any(1)
    label, u = _shown(events).label[gone], events.u[gone]
    assert (label == -1).all() and not u.any(), "a missing sample has a label or members"


def constants_are_harmless(clusterer: Clusterer, b: Backend) -> None:
    """10: a constant stream, and one with a constant feature, give only finite numbers."""
    for X in (np.ones((40, 2)), np.stack([np.ones(40), samples(4, 40)[:, 0]], 1)):
        for leaf in _leaves(follow(clusterer, X, b)[0]):
            assert np.isfinite(leaf).all(), "a constant stream made a state that is not finite"


def moving_the_origin(clusterer: Clusterer, b: Backend) -> None:
    """6: translation moves the centres and nothing else."""
    X, by = samples(5), np.array([4.0, -9.0])
    one, other = follow(clusterer, X, b)[1], follow(clusterer, X + by, b)[1]
    np.testing.assert_array_equal(_shown(one).label, _shown(other).label, err_msg="translation changed labels")
    active = one.after.active
    got, want = (other.after.centers - by)[active], one.after.centers[active]
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3, err_msg="translation did not move the centres")


CLUSTERER_LAWS = (
    events_are_sound,
    carry_is_stable,
    fleet_equals_loop,
    missing_changes_nothing,
    constants_are_harmless,
    moving_the_origin,
)


def check_clusterer(clusterer: Clusterer, backends: tuple[str, ...] | None = None) -> None:
    """Check a clusterer against all laws on all installed backends; AssertionError names the law that is broken."""
    check_laws(clusterer, CLUSTERER_LAWS, backends)
