"""Panel: several indices on one set of statistics, each statistic updated once per sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from icvi_jax.indices import Index
from icvi_jax.numerics.arrays import advance, cast, library, namespace, usable
from icvi_jax.numerics.moments import weights
from icvi_jax.origin import Anchor, about, no_anchor, set_anchor
from icvi_jax.spec import derived, is_number, made, number, one_of, settle, spec, static, whole
from icvi_jax.statistics import AnyStatistic, Count, States, Stats, Step, closure, pick
from icvi_jax.statistics.groups import gathered
from icvi_jax.statistics.index_view import Memo
from icvi_jax.types import Array, DType, Event, Merge, Namespace, Prototypes, State

S = TypeVar("S")
"""A state."""

MANY_COORDINATES = 128
"""Distances between centres with fewer coordinates, k p, are not cached: reading and writing them takes as long as
computing them."""


class PanelState(NamedTuple):
    """The state of a panel.

    Attributes
    ----------
    anchor : the first usable sample, subtracted from all coordinates.
    missing : (*streams), samples that were not usable.
    prototypes : centres (relative to the anchor) and active slots after the last sample.
    statistics : states by name of the statistic.

    Examples
    --------
    >>> import numpy as np, icvi_jax as icvi
    >>> state = icvi.Panel(indices=(icvi.XieBeni(),)).init(k=2, features=3, xp=np)
    >>> sorted(state.statistics)
    ['count', 'dispersion', 'separation']
    """

    anchor: Anchor
    missing: Array
    prototypes: Prototypes
    statistics: dict[str, State]


@spec
class Panel:
    """Indices of one clusterer, with one memory.

    Parameters
    ----------
    indices : the indices; their names must differ.
    forgetting : λ in (0, 1]: the weight of a sample is multiplied by it at every later sample; 1 never forgets. Values
        between 1 − 1e-5 and 1 are an error: single precision has not enough digits for 1 − λ. See `forgetting_of` for
        half-lives.
    fuzzifier : m ≥ 1, the power of soft memberships; no effect on crisp ones.
    norm : a positive definite matrix A (p, p): indices measure distance by ‖x‖² = xᵀAx. The clusterer does not.
    of : "slots", or "clusters" for the named clusters of a clusterer that has several slots per cluster: their
        statistics are combined exactly, and their centres are the means of their members.

    Examples
    --------
    >>> import numpy as np, icvi_jax as icvi
    >>> panel = icvi.Panel(indices=(icvi.XieBeni(),))
    >>> state = panel.init(k=2, features=1, xp=np)
    >>> for x, label in [(0.0, 0), (4.0, 1), (1.0, 0), (5.0, 1)]:
    ...     state, values = panel.step(state, np.array([x]), np.eye(2)[label], np.array([[0.5], [4.5]]))
    >>> float(values["xb"])  # mean squared distance 0.25 over squared separation 16
    0.015625
    """

    indices: tuple[Index, ...]
    forgetting: float = 1.0
    fuzzifier: float = 2.0
    norm: Array | None = None
    of: str = static("slots")
    factor: Array | None = derived()

    def __post_init__(self) -> None:
        if isinstance(self.indices, Index):
            name = type(self.indices).__name__
            raise ValueError(f"Panel(indices={name}()): expected a tuple of indices: ({name}(),)")
        settle(self, indices=tuple(self.indices))
        for index in self.indices:
            made("Panel", "indices", index, Index, "icvi.XieBeni(); icvi.indices.catalogue() lists them")
        names = [index.name for index in self.indices]
        if not names:
            raise ValueError("Panel(indices=()): name at least one index, such as icvi.XieBeni()")
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"Panel(indices=…): two indices are named {name!r}; give one another name, name='…'")
        one_of("Panel", "of", self.of, ("slots", "clusters"))
        lam, m = self.forgetting, self.fuzzifier
        if is_number(lam):
            number("Panel", "forgetting", lam, 0 < lam <= 1, "a number in (0, 1]; 1 never forgets")
            wanted = "1, or at most 1 - 1e-5: float32 has not enough digits for 1 - forgetting above that"
            number("Panel", "forgetting", lam, lam == 1 or 1 - lam >= 0.99e-5, wanted)
        if is_number(m):
            number("Panel", "fuzzifier", m, 1 <= m < float("inf"), "a number of at least 1")
        if self.norm is not None:
            settle(self, factor=_cholesky_factor(self.norm))

    @property
    def statistics(self) -> tuple[type[AnyStatistic], ...]:
        """The statistics the indices need, each once."""
        return closure((Count, *(part for index in self.indices for part in index.statistics())))

    @property
    def grouped(self) -> bool:
        """Whether it must know which slots belong to one cluster."""
        return self.of == "clusters" or any(index.grouped for index in self.indices)

    def kept(self, k: int, features: int) -> tuple[str, ...]:
        """Names of the values cached between steps for a `local` clusterer; none where computing them is cheaper."""
        if self.of != "slots" or self.norm is not None or k < 3 or features < 4:
            return ()
        names = {name for index in self.indices for name in index.kept()}
        if k * features < MANY_COORDINATES:
            names &= {"cross_entropies", "logdet"}  # a pair of these costs p³
        return tuple(sorted(names))

    def init(
        self, k: int, features: int, streams: tuple[int, ...] = (), xp: Namespace = jnp, dtype: DType | None = None
    ) -> PanelState:
        """The state before any sample, for `k` slots; `dtype` defaults to the library's default float."""
        whole("Panel.init", "k", k)
        whole("Panel.init", "features", features)
        xp, dtype, streams = layout(xp, dtype, streams)
        start = PanelState(
            no_anchor(features, streams, xp, dtype),
            xp.zeros(streams, dtype=xp.int32),
            Prototypes(
                xp.zeros((k, features, *streams), dtype=dtype),
                xp.zeros((k, *streams), dtype=xp.bool),
                xp.full((k, *streams), -1, dtype=xp.int32) if self.grouped else None,
            ),
            self.start(k, features, streams, xp, dtype),
        )
        return own_arrays(start, xp)

    def start(self, k: int, features: int, streams: tuple[int, ...], xp: Namespace, dtype: DType) -> dict[str, State]:
        """The states of all statistics before any sample."""
        if self.factor is not None and len(self.factor) != features:
            raise ValueError(f"Panel(norm=…): the matrix is for {len(self.factor)} features, the stream has {features}")
        return {part.name: part.init(k, features, streams, xp, dtype) for part in self.statistics}

    def step(
        self,
        state: PanelState,
        x: Array,
        u: Array,
        centers: Array,
        active: Array | None = None,
        elapsed: Array | None = None,
        clusters: Array | None = None,
    ) -> tuple[PanelState, dict[str, Array]]:
        """Process one sample of any clusterer; the state, and the values by index name, each (*streams).

        Parameters
        ----------
        state : from `init` or the last step.
        x : (p, *streams), the sample. Not finite: the sample is missing and nothing changes.
        u : (k, *streams), memberships of this sample: one-hot, soft, or all zero (noise).
        centers : (k, p, *streams), the centres after this sample.
        active : (k, *streams), slots in use after this sample; all by default. A slot that becomes active starts
            from zero; one that becomes inactive is forgotten.
        elapsed : time since the last sample; `forgetting` is per unit of this time; 1 by default.
        clusters : (k, *streams), integers from 0: the cluster of each slot after this sample. Only for
            ``of="clusters"`` and for `CONN`, which is NaN without it.
        """
        xp, dtype = namespace(state.anchor.high), state.anchor.high.dtype
        x, u, centers = (xp.asarray(a, dtype=dtype) for a in (x, u, centers))
        for field, got, like in (
            ("x", x, state.anchor.high),
            ("u", u, state.prototypes.active),
            ("centers", centers, state.prototypes.centers),
        ):
            if tuple(got.shape) != tuple(like.shape):
                wanted = f"expected shape {tuple(like.shape)}, got {tuple(got.shape)}"
                raise ValueError(f"Panel.step({field}=…): {wanted}")
        active = xp.ones_like(state.prototypes.active) if active is None else xp.asarray(active, dtype=xp.bool)
        if clusters is None and self.of == "clusters":
            raise ValueError('Panel(of="clusters").step(clusters=None): say which cluster each slot belongs to')
        good = complete(x, u, centers, active)
        state = state._replace(anchor=set_anchor(state.anchor, x, good))
        return self.advance(state, about(state.anchor, x), u, about(state.anchor, centers), active, elapsed, clusters)

    def advance(
        self,
        state: PanelState,
        x: Array,
        u: Array,
        centers: Array,
        active: Array,
        elapsed: Array | None = None,
        clusters: Array | None = None,
    ) -> tuple[PanelState, dict[str, Array]]:
        """`step` for coordinates that are already relative to the anchor of the state; `active` is required."""
        xp = namespace(x)
        seen = complete(x, u, centers, active) & punctual(elapsed, x)
        old, zero, names = state.prototypes, xp.zeros_like(x), state.prototypes.names
        if names is not None and clusters is not None:
            names = xp.where(seen, xp.astype(xp.asarray(clusters), names.dtype), names)
        shown = xp.where(seen, xp.where(active[:, None, ...], centers, zero), old.centers)
        after = Prototypes(shown, xp.where(seen, active, old.active), names)
        members = xp.where(seen & active, u, xp.zeros_like(u))
        event = Event(xp.where(seen, x, zero), members, old, after, seen, ready=xp.ones_like(seen))
        return self.observe(state, event, elapsed)

    def observe(
        self,
        state: PanelState,
        event: Event,
        elapsed: Array | None = None,
        crisp: bool = False,
        memo: Memo | None = None,
    ) -> tuple[PanelState, dict[str, Array]]:
        """State and values after what a clusterer did with one sample, relative to the anchor of the state.

        All ways to step a panel lead here. `crisp`: memberships are 0 or 1. `memo`: the cache of the step before.
        """
        statistics = self.update(state.statistics, event, elapsed, crisp)
        values = self.values(statistics, event.after, event.ready, memo)
        missing = advance(state.missing, ~event.seen)
        return PanelState(state.anchor, missing, event.after, statistics), values

    def update(
        self, statistics: Mapping[str, State], event: Event, elapsed: Array | None = None, crisp: bool = False
    ) -> dict[str, State]:
        """The statistics after one event, whose coordinates are already relative to the anchor."""
        xp = namespace(event.x)
        lam = cast(self.forgetting, event.x)
        fade = lam if elapsed is None else lam ** cast(elapsed, event.x)
        w = event.u if crisp else weights(event.u, cast(self.fuzzifier, event.x))
        fade = xp.where(event.seen, fade, xp.ones_like(event.x[0, ...]))
        before, after = self._view(event.before), self._view(event.after)
        step = Step(self.seen_by(event.x), event.u, w, fade, event.seen, before, after, event.born, event.merge)
        if event.begin is not None and event.begin_mass is not None:
            starts = {part.name: part.begin(States(statistics), before, event.begin_mass) for part in self.statistics}
            statistics = {
                name: old if starts[name] is None else pick(event.begin, starts[name], old)
                for name, old in statistics.items()
            }
        if event.merge is not None:
            statistics = self.merged(statistics, event.merge)
        if event.born is not None:
            statistics = {part.name: part.forget(statistics[part.name], event.born) for part in self.statistics}
        if self.of == "slots":
            return {part.name: part.update(States(statistics), step) for part in self.statistics}
        new = {part.name: part.update(States(statistics), step) for part in self.statistics if not part.follows}
        clusters = gathered(self.statistics, new, after)[1]
        step = step._replace(after=clusters)
        return new | {part.name: part.update(States(statistics), step) for part in self.statistics if part.follows}

    def merged(self, statistics: Mapping[str, State], merge: Merge) -> dict[str, State]:
        """The statistics after the members of one slot went to another."""
        found = {part.name: part.merge(States(statistics), merge) for part in self.statistics}
        return {name: statistics[name] if new is None else new for name, new in found.items()}

    def values(
        self, statistics: Mapping[str, State], prototypes: Prototypes, ready: Array, memo: Memo | None = None
    ) -> dict[str, Array]:
        """Values of all indices; NaN if not `ready`, without an active slot, and if all clusters are single samples."""
        stats = self.stats(statistics, prototypes, memo)
        xp = stats.xp
        lam = cast(self.forgetting, stats.centers)
        ready = ready & (stats.k > 0)
        enough = ready & ~stats.singletons
        values = {}
        for index in self.indices:
            value = index.value(stats, lam)
            ok = enough if index.scattered else ready
            values[index.name] = xp.where(ok, value, xp.full_like(value, xp.nan))
        return values

    def stats(self, statistics: Mapping[str, State], prototypes: Prototypes, memo: Memo | None = None) -> Stats:
        """What indices get: views of the statistics at the given prototypes."""
        parts, slots = self.statistics, self._view(prototypes)
        views = (statistics, slots) if self.of == "slots" else gathered(parts, statistics, slots)
        return Stats(parts, *views, slots, memo)

    def seen_by(self, x: Array) -> Array:
        """Coordinates (p, *streams) in the norm: Lᵀx with A = LLᵀ, a row at a time."""
        if self.factor is None:
            return x
        xp, lower = namespace(x), cast(self.factor, x)
        wide = (-1,) + (1,) * (x.ndim - 1)
        return xp.stack([xp.sum(xp.reshape(lower[:, i], wide) * x, axis=0) for i in range(x.shape[0])])

    def _view(self, prototypes: Prototypes) -> Prototypes:
        if self.factor is None:
            return prototypes
        xp = namespace(prototypes.centers)
        rows = [self.seen_by(prototypes.centers[i, ...]) for i in range(prototypes.centers.shape[0])]
        return prototypes._replace(centers=xp.stack(rows))


def forgetting_of(half_life: float) -> float:
    """The forgetting factor with which the weight of a sample is halved after `half_life` samples (or time units).

    Examples
    --------
    >>> round(forgetting_of(half_life=7), 4)
    0.9057
    """
    if is_number(half_life):
        number("forgetting_of", "half_life", half_life, half_life > 0, "a positive number")
    forgetting: float = 0.5 ** (1 / half_life)
    return forgetting


def _cholesky_factor(norm: Array) -> np.ndarray:
    """The factor L of a positive definite matrix, or an error."""
    a = np.asarray(jax.device_get(norm), dtype=float)
    if a.ndim != 2 or a.shape[0] != a.shape[1] or not np.allclose(a, a.T):
        raise ValueError(f"Panel(norm=…): expected a symmetric matrix (p, p), got shape {a.shape}")
    try:
        return np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        raise ValueError("Panel(norm=…): the matrix is not positive definite") from None


def punctual(elapsed: Array | None, x: Array) -> Array:
    """Whether the time since the last sample is valid, (*streams): finite and not negative."""
    xp = namespace(x)
    if elapsed is None:
        return xp.ones_like(x[0, ...], dtype=xp.bool)
    gap = cast(elapsed, x)
    return xp.isfinite(gap) & (gap >= 0) & xp.ones_like(x[0, ...], dtype=xp.bool)


def complete(x: Array, u: Array, centers: Array, active: Array) -> Array:
    """Whether sample, memberships and all centres in use are usable numbers."""
    xp = namespace(x)
    shown = xp.where(active[:, None, ...], centers, xp.zeros_like(centers))
    return xp.all(usable(x), axis=0) & xp.all(usable(u), axis=0) & xp.all(usable(shown), axis=(0, 1))


def layout(xp: Namespace, dtype: object, streams: tuple[int, ...] | int) -> tuple[Namespace, object, tuple[int, ...]]:
    """The array-API form of `xp`, its default float if `dtype` is None, and `streams` as a tuple."""
    xp = library(xp)
    streams = (streams,) if isinstance(streams, int) else tuple(streams)
    dtype = xp.asarray(0.0).dtype if dtype is None else dtype
    if not xp.isdtype(xp.zeros(0, dtype=dtype).dtype, "real floating"):
        raise ValueError(f"init(dtype={dtype}): expected a type of floats, float32 or float64")
    return xp, dtype, streams


def own_arrays(state: S, xp: Namespace) -> S:
    """A state none of whose arrays is there twice: one may donate it, or change its NumPy arrays one by one."""
    met: set[int] = set()

    def own(a: Array) -> Array:
        again = id(a) in met
        met.add(id(a))
        return xp.asarray(a, copy=True) if again else a

    mine: S = jax.tree.map(own, state)
    return mine
