"""What flows through a pipeline: named tuples, so that JAX, torch.func and plain Python see the same thing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:  # any array library will do; JAX's stands for all in the eyes of a type checker
    from jax import Array
else:
    Array = object
    """An array of any library with an array-API namespace (NumPy, JAX, torch, array-api-strict)."""


class Namespace(Protocol):
    """A module of array functions, such as `numpy` or `jax.numpy`."""

    float32: object
    float64: object


class Prototypes(NamedTuple):
    """Cluster centres in a fixed number of slots, and which of the slots are in use.

    Attributes
    ----------
    centers : (k, p, *streams).
    active : (k, *streams), boolean.
    """

    centers: Array
    active: Array


class Event(NamedTuple):
    """What a clusterer did with one sample: all that statistics and indices ever see.

    Attributes
    ----------
    x : (p, *streams), the sample; anything finite where it is missing.
    u : (k, *streams), memberships: one-hot, soft, or all zero (noise, and missing samples).
    before, after : prototypes before and after the sample.
    seen : (*streams), False where the sample is missing.
    ready : (*streams), False during warm-up: values are NaN then.
    label : (*streams), integer: the slot the sample is assigned to, −1 for none.
    k : (*streams), integer: the number of clusters the clusterer reports.
    outlier, overflow : (*streams), boolean: belongs to no cluster; a cluster was wanted and no slot was free.
    begin : (*streams) or None. Where True, evaluation starts with this sample as the paper has it: dispersion from
        zero, every active slot with the mass `begin_mass`. None: statistics run from the first sample.
    begin_mass : number of samples before evaluation began; None with `begin`.
    """

    x: Array
    u: Array
    before: Prototypes
    after: Prototypes
    seen: Array
    ready: Array
    label: Array
    k: Array
    outlier: Array
    overflow: Array
    begin: Array | None = None
    begin_mass: Array | None = None


class Alarm(NamedTuple):
    """What a monitor says at one sample.

    Attributes
    ----------
    code : (*streams), integer: 0 quiet, 1 spike, 2 recovered, 3 distress. Non-zero only at the sample that raises it.
    score : (*streams), how bad things are, comparable across streams.
    standing : (*streams), boolean: distress from a 3 until the next 2.
    """

    code: Array
    score: Array
    standing: Array


class Reading(NamedTuple):
    """What a person reads after one sample.

    Attributes
    ----------
    values : index values by name; NaN during warm-up and where an index is undefined.
    label : the slot of this sample, −1 where it is missing or noise.
    u : (k, *streams), memberships.
    k : number of active clusters.
    centers : (k, p, *streams), in the units of the samples.
    seen : False where the sample is missing; values, k and centers then repeat.
    outlier, overflow : see `Event`.
    alarms : `Alarm` by monitor name.
    """

    values: dict[str, Array]
    label: Array
    u: Array
    k: Array
    centers: Array
    seen: Array
    outlier: Array
    overflow: Array
    alarms: dict[str, Alarm]
