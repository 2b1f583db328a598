"""Every part that the project exports obeys the laws, on every backend."""

import jax
import pytest
from installed import installed, quick_jit

import icvi_jax as icvi
from icvi_jax.monitors import Listener, SampleMonitor
from icvi_jax.statistics import Statistic
from icvi_jax.testing import (
    BACKENDS,
    CLUSTERER_LAWS,
    INDEX_LAWS,
    MONITOR_LAWS,
    SAMPLE_MONITOR_LAWS,
    STATISTIC_LAWS,
    check_index,
)
from icvi_jax.testing import backends as kit
from icvi_jax.testing.indices import shared_equals_separate

INDICES = tuple(entry.index() for entry in icvi.indices.catalogue())
STATISTICS = tuple(
    part
    for part in vars(icvi.statistics).values()
    if isinstance(part, type) and issubclass(part, Statistic) and part is not Statistic
)
CLUSTERERS = (
    icvi.SequentialKMeans(k=3),
    icvi.SequentialKMeans(k=3, seeding="distinct", warmup="paper"),
    icvi.OnlineEllipsoidal(capacity=4),
    icvi.OnlineEllipsoidal(capacity=4, trigger="window", seed="buffer", warmup="paper", memory=20.0),
    icvi.RebirthKMeans(k=3, memory=10.0, mass_memory=20.0),
    icvi.FuzzyCMeans(k=3),
    icvi.MergeSplit(slots=4, mass_memory=20.0),
    icvi.MergeSplit(slots=4, mass_memory=20.0, traffic=0.5),
    icvi.Portfolio(
        candidates=(icvi.SequentialKMeans(k=2), icvi.MergeSplit(slots=3, mass_memory=20.0), icvi.FuzzyCMeans(k=3)),
        judge=icvi.OnlineSilhouette(),
        patience=5.0,
        margin=0.01,
    ),
)
NEW = tuple(
    entry.clusterer(**{entry.size: 3})
    for entry in icvi.clusterers.catalogue()
    if not any(isinstance(part, entry.clusterer) for part in CLUSTERERS)
)
CLUSTERERS += NEW
EXPORTED = tuple(
    getattr(icvi, name)()
    for name in dir(icvi)
    if isinstance(getattr(icvi, name), type) and issubclass(getattr(icvi, name), Listener) and name != "Monitor"
)
SAMPLE_MONITORS = tuple(m for m in EXPORTED if isinstance(m, SampleMonitor)) + (icvi.Change(indices=("xb",)),)
MONITORS = tuple(m for m in EXPORTED if not isinstance(m, SampleMonitor)) + (icvi.Distress(false_alarms=1e-3, warm=5),)


ONE_WAY = ("readonly", "strict")
"""NumPy's numbers again, but no writing to an input, and the standard's functions alone: what passes each line of a
part shows that, so these two see the laws that step through whole examples, alone and as a fleet."""
PASSING = ("fleet_equals_loop", "incremental_equals_batch", "degenerate_inputs")


def each(laws, few=()):
    """Parametrize over pairs of a law and a backend; the laws in `few`, a whole panel an index, on two backends."""
    pairs = [
        pytest.param(law, name, id=f"{name}-{law.__name__}")
        for law in laws
        for name in BACKENDS
        if (name not in ONE_WAY or law.__name__ in PASSING or laws is STATISTIC_LAWS)
        and (law not in few or name in ("numpy", "jax64"))
    ]
    return pytest.mark.parametrize("law, name", pairs)


@pytest.fixture(scope="module", autouse=True)
def quick_in_double_precision():
    """Steps in double precision are compiled without XLA's optimizations, those in single precision as for users."""
    full, quick = kit._jax_step, quick_jit(kit._jax_step.__wrapped__, static_argnames="rest")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kit, "_jax_step", lambda *args: (quick if jax.config.jax_enable_x64 else full)(*args))
        yield


@each(INDEX_LAWS, few=(shared_equals_separate,))
def test_indices(law, name):
    law(INDICES, installed(name))


@each(STATISTIC_LAWS)
@pytest.mark.parametrize("statistic", STATISTICS, ids=lambda s: s.__name__)
def test_statistics(law, statistic, name):
    law(statistic, installed(name))


@each(CLUSTERER_LAWS)
@pytest.mark.parametrize("clusterer", CLUSTERERS, ids=lambda c: f"{c.name} {CLUSTERERS.index(c)}")
def test_clusterers(law, clusterer, name):
    law(clusterer, installed(name))


@each(MONITOR_LAWS)
@pytest.mark.parametrize("monitor", MONITORS, ids=lambda m: type(m).__name__)
def test_monitors(law, monitor, name):
    law(monitor, installed(name))


@each(SAMPLE_MONITOR_LAWS)
@pytest.mark.parametrize("monitor", SAMPLE_MONITORS, ids=lambda m: "+".join((type(m).__name__, *m.watched)))
def test_sample_monitors(law, monitor, name):
    if monitor.watched and name not in ("numpy", "jax64"):
        pytest.skip("a whole pipeline: two backends stand for all")
    law(monitor, installed(name))


def test_there_are_parts():
    assert len(INDICES) == 24 and len(STATISTICS) >= 6 and len(MONITORS) >= 3 and SAMPLE_MONITORS


class TestTheKitItself:
    """Tests of laws that cannot fail prove nothing."""

    def test_an_index_that_forgets_its_normalizer_is_found(self):
        class Broken(icvi.XieBeni):
            def value(self, stats, forgetting):
                return super().value(stats, forgetting) * stats.centers[0, 0]

        with pytest.raises(AssertionError):
            check_index(icvi.spec.spec(Broken)(), backends=("numpy",))

    def test_an_index_that_calls_coincidence_perfect_is_found(self):
        class Flattering(icvi.XieBeni):
            def value(self, stats, forgetting):
                value = super().value(stats, forgetting)
                return stats.xp.where(stats.separation.smallest == 0, 0 * stats.k, value)

        with pytest.raises(AssertionError, match="best"):
            check_index(icvi.spec.spec(Flattering)(), backends=("numpy",))
