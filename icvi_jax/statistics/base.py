"""What a statistic is: everything recursive in a panel, updated once a sample however many indices read it."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from icvi_jax.kernels.arrays import namespace
from icvi_jax.types import Array, Merge, Namespace, Prototypes


class Step(NamedTuple):
    """One sample as statistics see it.

    Attributes
    ----------
    x : (p, *streams), the sample; anything finite where it is missing.
    u : (k, *streams), memberships; 0 in inactive slots and where the sample is missing.
    w : (k, *streams), the weights u^m.
    fade : (*streams), what the past is multiplied by: λ^Δt; 1 where the sample is missing.
    seen : (*streams), boolean.
    before, after : the prototypes before and after the sample.
    born : (k, *streams), boolean, or None: slots that begin anew with this sample; see `Event`.
    merge : clusters that became one, or None; the old states are already merged, and `born` slots have no past.
    """

    x: Array
    u: Array
    w: Array
    fade: Array
    seen: Array
    before: Prototypes
    after: Prototypes
    born: Array | None = None
    merge: Merge | None = None


class Recording(NamedTuple):
    """A whole stream at once, for batch definitions: missing samples are already left out.

    Attributes
    ----------
    x, u : (n, p) and (n, k), samples, and memberships as they were when the sample came; 0 in inactive slots.
    w : (n, k), the weights u^m, 0 before the last birth of a slot.
    fades : (n,), the weight λ^(n−j) that is left of each sample.
    centers, active : (n, k, p) and (n, k), the path of the prototypes.
    given : (n, k), the weights u^m as they were when the sample came.
    names : (n, k), which cluster each slot belonged to, or None.
    """

    x: Array
    u: Array
    w: Array
    fades: Array
    centers: Array
    active: Array
    given: Array
    names: Array | None = None


class Statistic:
    """A pair of pure functions, `init` and `update`, and the `batch` definition that they must agree with.

    Subclasses are never instantiated. A state is a named tuple of arrays with streams trailing. `name` is the field of
    `Stats` under which indices find it, `needs` the statistics whose states `update` or `view` reads besides its own.
    On a panel of clusters of several slots, states are merged before they are read, unless not `gathers`; a statistic
    that `follows` the clusters is updated after the others, with the clusters' prototypes. `shards`: two shards combine
    to exactly the whole.
    """

    gathers: ClassVar[bool] = True
    follows: ClassVar[bool] = False
    shards: ClassVar[bool] = True

    name: ClassVar[str]
    needs: ClassVar[tuple[type[Statistic], ...]] = ()

    @staticmethod
    def init(k: int, features: int, streams: tuple[int, ...], xp: Namespace, dtype: object):
        """The state before any sample."""
        raise TypeError("a statistic defines init")

    @staticmethod
    def update(old: dict, step: Step):
        """The state after one more sample; `old` maps names to the states before it."""
        raise TypeError("a statistic defines update")

    @staticmethod
    def batch(recording: Recording):
        """The state after a whole recording, from the definition."""
        raise TypeError("a statistic defines batch")

    @staticmethod
    def begin(old: dict, prototypes: Prototypes, mass: Array):
        """The state at the start of evaluation with `warmup="paper"`; by default the past goes on."""
        return None

    @staticmethod
    def shift(state, by: Array):
        """The state after all coordinates grew by `by` (p, *streams); by default it holds no coordinates."""
        return state

    @staticmethod
    def fade(state, by: Array, alive: Array):
        """The state after all that it holds lost weight by the factor `by` (*streams), and the slots that are not
        `alive` (k, *streams) all of it; by default it holds no weights.
        """
        return state

    @staticmethod
    def combine(a: dict, b: dict):
        """The state of two shards taken together; `a` and `b` map names to states."""
        raise TypeError("a statistic defines combine")

    @staticmethod
    def remove(old: dict, step: Step):
        """The state without a sample that was taken in before.

        `step.fade` is the weight that is left of the sample, and `step.w` what is left of its weights.
        """
        raise TypeError("a statistic defines remove")

    @staticmethod
    def merge(old: dict, merge: Merge):
        """The state after the members of `merge.gone` went to `merge.into`; None where slots play no part in it."""
        return None

    @staticmethod
    def forget(state, born: Array):
        """The state in which the slots `born` (k, *streams) have no past; by default it holds none of slots."""
        return state

    @staticmethod
    def view(stats, state):
        """What indices read; by default the state itself."""
        return state


def closure(statistics: tuple[type[Statistic], ...]) -> tuple[type[Statistic], ...]:
    """`statistics` with all that they need, each once, in a fixed order of names."""
    found: dict[str, type[Statistic]] = {}
    queue = list(statistics)
    while queue:
        part = queue.pop()
        if part.name not in found:
            found[part.name] = part
            queue.extend(part.needs)
    return tuple(found[name] for name in sorted(found))


def leftover(mass: Array, w: Array) -> tuple[Array, Array]:
    """Of a mass without the weight `w`: the ratio w / (M − w), and whether nothing but rounding is left (ratio 0)."""
    xp = namespace(mass)
    left = mass - w
    gone = left <= 8 * xp.finfo(left.dtype).eps * mass
    return xp.where(gone, xp.zeros_like(left), w / xp.where(gone, xp.ones_like(left), left)), gone


def chosen(state, mask: Array):
    """The slot of `state` that the one-hot `mask` (k, *streams) points at, as a state of one slot; zeros for none."""

    def one(a: Array) -> Array:
        xp = namespace(a)
        wide = xp.reshape(mask, (mask.shape[0],) + (1,) * (a.ndim - mask.ndim) + tuple(mask.shape[1:]))
        return xp.sum(xp.where(wide, a, xp.zeros_like(a)), axis=0, keepdims=True)

    return type(state)(*map(one, state))


def placed(state, part, merge: Merge):
    """`state` with `part` (one slot) in the slot `merge.into` and zeros in `merge.gone`."""

    def put(a: Array, new: Array) -> Array:
        xp = namespace(a)
        lead = (merge.into.shape[0],) + (1,) * (a.ndim - merge.into.ndim)
        into, gone = (xp.reshape(mask, lead + tuple(mask.shape[1:])) for mask in merge)
        return xp.where(into, new, xp.where(gone, xp.zeros_like(a), a))

    return type(state)(*(put(a, new) for a, new in zip(state, part)))


def pick(condition: Array, yes, no):
    """`where` over the fields of two states; `condition` is (*streams)."""
    return type(yes)(*(namespace(a).where(condition, a, b) for a, b in zip(yes, no)))
