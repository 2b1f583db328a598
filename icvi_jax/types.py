"""The data in a pipeline: named tuples, which JAX, torch.func and plain Python all understand."""

from __future__ import annotations

import warnings
from typing import NamedTuple

from icvi_jax.array_api import Array as Array
from icvi_jax.array_api import ArrayLike as ArrayLike
from icvi_jax.array_api import DType as DType
from icvi_jax.array_api import Namespace as Namespace
from icvi_jax.array_api import State as State


class Prototypes(NamedTuple):
    """Cluster centres in a fixed number of slots, and which of the slots are in use.

    Attributes
    ----------
    centers : (k, p, *streams).
    active : (k, *streams), boolean.
    names : (k, *streams), integer: the persistent name of the cluster each slot belongs to, −1 for none. None if every
        cluster has one slot and the slot is its name.
    masses : (k, *streams), what the clusterer takes a slot's weight to be, positive where it is in use: where a cluster
        of several slots is, if the panel has forgotten all its members. None: slots weigh the same.

    Examples
    --------
    >>> import numpy as np, icvi_jax as icvi
    >>> prototypes = icvi.Prototypes(np.zeros((2, 3)), np.array([True, False]))
    >>> prototypes.centers.shape, int(prototypes.active.sum())
    ((2, 3), 1)
    """

    centers: Array
    active: Array
    names: Array | None = None
    masses: Array | None = None


class Merge(NamedTuple):
    """Two clusters that became one at a sample.

    Attributes
    ----------
    into : (k, *streams), boolean: the slot that has the members of both from now on; all False without a merge.
    gone : (k, *streams), boolean: the slot that lost its members.
    """

    into: Array
    gone: Array


class Diagnostics(NamedTuple):
    """Output of a clusterer for readings, which no statistic needs.

    Attributes
    ----------
    label : (*streams), integer: the slot of the sample, −1 for none.
    k : (*streams), integer: the number of clusters the clusterer reports.
    outlier, overflow : (*streams), boolean: belongs to no cluster; a cluster was needed and no slot was free.
    cluster : (*streams), integer: the persistent name of the sample's cluster; the label where clusters have no names.
    surprise : (*streams), squared distance from the nearest centre before the sample, in the clusterer's coordinates;
        NaN where there is no centre yet and where the sample is missing.
    """

    label: Array
    k: Array
    outlier: Array
    overflow: Array
    cluster: Array
    surprise: Array


class Event(NamedTuple):
    """What a clusterer did with one sample: the only input of statistics and indices.

    In one step clusters are merged first, then slots are born, then the sample joins with its memberships.

    Attributes
    ----------
    x : (p, *streams), the sample; anything finite where it is missing.
    u : (k, *streams), memberships: one-hot, soft, or all zero (noise, and missing samples).
    before, after : prototypes before and after the sample.
    seen : (*streams), False where the sample is missing.
    ready : (*streams), False during warm-up: values are NaN then.
    shown : output for readings; None if it is not needed.
    born : (k, *streams), boolean, or None: slots that start again with this sample although they were in use. A slot
        that becomes active starts again in any case.
    merge : clusters that became one, or None.
    begin : (*streams) or None. Where True, evaluation starts with this sample as in the paper: dispersion from zero,
        every active slot with the mass `begin_mass`. None: statistics start with the first sample.
    begin_mass : number of samples before evaluation began; None with `begin`.
    moved : one-hot masks (k, *streams), boolean: the only slots whose centre, use or members this sample changed, each
        all False where it changed none. None: any slot may have changed. A clusterer that is `local` gives them.

    Examples
    --------
    >>> import numpy as np, icvi_jax as icvi
    >>> clusterer = icvi.SequentialKMeans(k=2)
    >>> state = clusterer.init(1, (), np, np.float64)
    >>> state, event = clusterer.step(state, np.array([4.0]), np.array(True))
    >>> event.u.tolist(), event.after.centers[:, 0].tolist()
    ([1.0, 0.0], [4.0, 0.0])
    """

    x: Array
    u: Array
    before: Prototypes
    after: Prototypes
    seen: Array
    ready: Array
    shown: Diagnostics | None = None
    born: Array | None = None
    merge: Merge | None = None
    begin: Array | None = None
    begin_mass: Array | None = None
    moved: tuple[Array, ...] | None = None


class Alarm(NamedTuple):
    """The output of a monitor at one sample.

    Attributes
    ----------
    code : (*streams), integer: 0 quiet, 1 spike, 2 recovered, 3 distress. Non-zero only at the sample that raises it.
    score : (*streams), how strong the evidence is, comparable across streams.
    standing : (*streams), boolean: distress from a 3 until the next 2.
    cause : (*streams), integer: the column that changed, −1 without an alarm and where it is no single column.
    p : (*streams), how surprising the sample is: the share of quiet samples that look as unusual; NaN where unknown.

    Examples
    --------
    >>> import icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=None, panel=None, monitors={"change": icvi.Change()})
    >>> alarm = icvi.run(pipe, icvi.streams.s2(seed=0).x).readings.alarms["change"]
    >>> alarm.code.shape, bool((alarm.code > 0).any())
    ((2500,), True)
    """

    code: Array
    score: Array
    standing: Array
    cause: Array
    p: Array


class Reading(NamedTuple):
    """The output of a pipeline after one sample.

    Attributes
    ----------
    values : index values by name; NaN during warm-up and where an index is undefined.
    label : the slot of this sample, −1 where it is missing or noise.
    u : (k, *streams), memberships.
    k : number of active clusters.
    centers : (k, p, *streams), in the units of the samples.
    seen : False where the sample is missing; values, k and centers then repeat.
    outlier, overflow, cluster, surprise : see `Diagnostics`.
    alarms : `Alarm` by monitor name.

    Examples
    --------
    >>> import numpy as np, icvi_jax as icvi
    >>> pipe = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=2), panel=icvi.Panel(indices=(icvi.XieBeni(),)))
    >>> state, reading = pipe.step(pipe.init(features=2, xp=np), np.ones(2))
    >>> int(reading.label), int(reading.k)
    (0, 1)
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
    cluster: Array
    surprise: Array


def __getattr__(name: str) -> type:
    if name == "Shown":
        warnings.warn("icvi_jax.types.Shown is called Diagnostics since 0.3", DeprecationWarning, stacklevel=2)
        return Diagnostics
    raise AttributeError(name)
