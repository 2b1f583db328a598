"""Every index against the oracle that was written from the specification alone, and what it says at the edges."""

import itertools
import sys
import warnings
from pathlib import Path

import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from installed import installed

import icvi_jax as icvi
from icvi_jax.numerics import cholesky
from icvi_jax.testing import backend

sys.path.insert(0, str(Path(__file__).resolve().parent))

from oracles.indices import NAMES, value  # noqa: E402

ALL = tuple(entry.index() for entry in icvi.indices.catalogue() if entry.name in NAMES)  # those that have an oracle
OPTIONS = (
    (icvi.XieBeni(normalizer="exact"), {"normalizer": "exact"}),
    (icvi.DaviesBouldin(root=True), {"root": True}),
    (icvi.CalinskiHarabasz(dof="none"), {"dof": "none"}),
    (icvi.CentroidSilhouette(peer=True), {"peer": True}),
    (icvi.GeneralizedDunn43(root=True), {"root": True}),
    (icvi.RepresentativeCIP(log=False), {"log": False}),
    (icvi.RMSSTD(dof="none"), {"dof": "none"}),
)


@st.composite
def recordings(draw):
    """A recorded clustering: any sizes, crisp or soft, births, deaths, noise, missing and repeated samples."""
    n, k, p = draw(st.integers(1, 20)), draw(st.integers(1, 4)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    X = 3 * rng.normal(size=(n, p)) + draw(st.sampled_from([0.0, 1e3]))
    U = rng.dirichlet(np.ones(k), size=n) if draw(st.booleans()) else np.eye(k)[rng.integers(0, k, n)]
    V = X.mean(axis=0) + 4 * rng.normal(size=(k, p)) + np.cumsum(0.3 * rng.normal(size=(n, k, p)), axis=0)
    A = np.ones((n, k), bool)
    for i in range(k):
        A[: draw(st.integers(0, n // 2)), i] = False
        if draw(st.booleans()):
            A[draw(st.integers(0, n)) : draw(st.integers(0, n)), i] = False
    for t in range(n):
        what = draw(st.sampled_from(["", "", "", "", "noise", "missing", "repeat"]))
        U[t] = 0 if what == "noise" else U[t]
        X[t, 0] = np.nan if what == "missing" else X[t, 0]
        X[t] = X[t - 1] if what == "repeat" else X[t]
    return X, U, np.where(A[:, :, None], V, np.nan), A


def along(panel, X, U, V, A, b="numpy"):
    """The values after the last sample, by steps."""
    b = installed(b)
    state = panel.init(U.shape[1], X.shape[1], xp=b.xp, dtype=b.dtype)
    for x, u, v, a in zip(X, U, V, A):
        state, values = panel.step(state, b.array(x), b.array(u), b.array(v), b.array(a))
    return {name: float(one) for name, one in values.items()}


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(recordings(), st.sampled_from([1.0, 0.99, 0.9]), st.sampled_from([2.0, 1.5, 1.0]))
def test_incremental_equals_the_oracle(recording, forgetting, fuzzifier):
    X, U, V, A = recording
    panel = icvi.Panel(indices=ALL, forgetting=forgetting, fuzzifier=fuzzifier)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the oracle divides by zero
        want = {name: value(name, X, U, V, A, forgetting, fuzzifier) for name in NAMES}
    got = along(panel, X, U, V, A)
    lone = np.isnan(want["xb"]) and A[np.all(np.isfinite(X), axis=1)][-1:].sum() == 1  # not defined
    for name in NAMES:
        if not (lone and name in ("xb", "db")):
            np.testing.assert_allclose(got[name], want[name], rtol=1e-8, atol=1e-8, err_msg=name)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(recordings(), st.sampled_from([1.0, 0.9]))
def test_options_equal_the_oracle(recording, forgetting):
    X, U, V, A = recording
    lone = A[np.all(np.isfinite(X), axis=1)][-1:].sum() == 1
    panel = icvi.Panel(indices=tuple(index for index, _ in OPTIONS), forgetting=forgetting)
    got = along(panel, X, U, V, A)
    for index, options in OPTIONS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = value(index.name, X, U, V, A, forgetting, **options)
        if lone and (index.name == "db" or index.name == "xb" and np.isnan(want)):
            continue  # the root form of a lone cluster is ours to define
        np.testing.assert_allclose(got[index.name], want, rtol=1e-8, atol=1e-8, err_msg=index.name)


def spoiled(values, allowed):
    """Names of the indices whose value is neither NaN nor what is `allowed`."""
    return {n: v for n, v in values.items() if not np.isnan(v) and v != allowed.get(n, np.nan)}


@pytest.mark.parametrize("lib", ["numpy", "strict", "torch"])
def test_what_is_undefined_is_never_the_best(lib):
    panel = icvi.Panel(indices=ALL)
    X, V = np.array([[0.0, 0.0], [1.0, 2.0], [3.0, 5.0], [2.0, 2.0]]), np.array([[1.0, 1.0], [3.0, 4.0]])
    on, two = np.ones((4, 2), bool), np.eye(2)[[0, 1, 1, 0]]
    path = np.broadcast_to(V, (4, 2, 2))
    assert not spoiled(along(panel, X, two, path, ~on, lib), {})  # no cluster
    alone = along(panel, X, np.ones((4, 1)), path[:, :1], on[:, :1], lib)
    assert not spoiled({n: v for n, v in alone.items() if n not in ("xb", "db")}, {})  # one slot
    alone = along(panel, X, two, path, on & [True, False], lib)
    assert not spoiled({n: v for n, v in alone.items() if n not in ("xb", "db")}, {})  # one of two slots
    single = along(panel, X[:2], two[:2], path, on, lib)
    assert not spoiled({n: v for n, v in single.items() if n not in ("ps", "pc", "pe")}, {})  # only singletons
    same = along(panel, X, two, np.ones((4, 2, 2)), on, lib)  # coincident centres
    assert same["xb"] == same["db"] == same["kwon"] == np.inf and np.isnan(same["ps"])
    assert same["gd43"] == same["pbm"] == 0 and same["csil"] == 0
    constant = along(panel, np.ones((4, 2)), two, np.ones((4, 2, 2)), on, lib)
    for index in ALL:
        if index.scattered:
            assert constant[index.name] != index.range[index.goal == "max"], index.name
    undefined = "ch wb pbm csil gd43 gd53 ps bh hartigan xu r2 rmsstd".split()
    assert {n for n, v in constant.items() if np.isnan(v)} == set(undefined)
    three = np.concatenate([path, path[:, :1] + 9], 1)
    empty = along(panel, X, np.eye(3)[[0, 1, 1, 0]], three, np.ones((4, 3), bool), lib)
    assert {n for n, v in empty.items() if np.isnan(v)} == {"csil", "rcip", "rh"}  # an active slot without members


@pytest.mark.filterwarnings("ignore:torch.asarray")
@pytest.mark.parametrize("index", ALL, ids=lambda index: index.name)
def test_gradients_are_finite_where_values_are_not(index):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    rng = np.random.default_rng(0)
    X, V, U = rng.normal(size=(5, 2)), rng.normal(size=(3, 2)), np.eye(3)[[0, 1, 1, 0, 1]]
    one = np.ones((5, 2))
    for samples, centers, active in (
        (X, V, [True, True, False]),
        (X, V, [True, False, False]),
        (X, V, [False] * 3),
        (X, V, [True] * 3),
        (X, one[:3], [True, True, False]),
        (one, one[:3], [True, True, False]),
    ):

        def total(x, v, active=active):
            panel = icvi.Panel(indices=(index,), forgetting=0.95)
            state, out = panel.init(3, 2, xp=torch, dtype=torch.float64), 0 * x.sum()
            for t in range(5):
                state, values = panel.step(state, x[t], torch.tensor(U[t]), v, torch.tensor(active))
                out = out + torch.nan_to_num(values[index.name], posinf=0.0, neginf=0.0)
            return out

        for slope in torch.func.grad(total, argnums=(0, 1))(torch.tensor(samples), torch.tensor(centers)):
            assert torch.isfinite(slope).all(), (active, slope)


@pytest.mark.parametrize("p", [2, 7, 30, 400])
def test_covariances_of_many_features(p):
    rng = np.random.default_rng(p)
    n = 6 if p > 100 else 12
    X, U, V = rng.normal(size=(n, p)), rng.dirichlet(np.ones(3), size=n), rng.normal(size=(n, 3, p))
    panel = icvi.Panel(indices=tuple(i for i in ALL if i.name in ("ni", "rcip", "rh")), forgetting=0.95)
    got = along(panel, X, U, V, np.ones((n, 3), bool))
    for name in got:
        np.testing.assert_allclose(got[name], value(name, X, U, V, None, 0.95), rtol=1e-9)


def gaussian(S, d, floor):
    S, least = cholesky.raised(S, d.shape[1], floor)
    return cholesky.gaussian(S, d, least)


@pytest.mark.parametrize("p", [2, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logdet_of_the_largest_and_smallest_matrices(p, dtype):
    reach = 1e15 if dtype == np.float32 else 1e140
    pivots = [reach**2, 1.0, 1e-3, 99999.0]
    for diagonal in itertools.product(pivots, repeat=p):
        packed = np.concatenate([[v] + [0.0] * (p - 1 - j) for j, v in enumerate(diagonal)]).astype(dtype)
        _, total = cholesky.gaussian(packed[None], np.zeros((1, p), dtype), np.full(1, 1e-4, dtype))
        exact = 1e-5 if dtype == np.float32 else 1e-12
        np.testing.assert_allclose(total, np.sum(np.log(diagonal)), rtol=exact, atol=exact)


@pytest.mark.parametrize("p", [1, 3, 6, 30])
@pytest.mark.parametrize("lib", ["numpy", "strict", "torch", "jax64"])
def test_logdet_and_mahalanobis(p, lib):
    b = installed(lib)
    rng = np.random.default_rng(p)
    A = rng.normal(size=(3, p, p))
    S, d = A @ A.swapaxes(1, 2) + np.eye(p), rng.normal(size=(3, p))
    packed = np.concatenate([S[:, j:, j] for j in range(p)], axis=1)
    with b.precision():
        for fleet in ((),) if lib == "jax64" and p > 6 else ((), (2,)):  # to compile the other takes too long here
            wide = [np.broadcast_to(a[(...,) + (None,) * len(fleet)], (*a.shape, *fleet)) for a in (packed, d)]
            run = jax.jit(gaussian, static_argnums=2) if lib == "jax64" else gaussian
            F, total = run(*(b.array(a) for a in wide), 1.0)
            for got, want in ((F, [e @ np.linalg.solve(s, e) for s, e in zip(S, d)]), (total, np.linalg.slogdet(S)[1])):
                got = np.asarray(got).reshape(3, -1)
                np.testing.assert_allclose(got, np.broadcast_to(np.array(want)[:, None], got.shape), rtol=1e-10)


def test_a_flat_covariance_does_not_fail_in_single_precision():
    b = backend("numpy")._replace(dtype=np.float32)
    t = np.linspace(0, 1, 60)[:, None]
    for p in (3, 9, 40):  # on a line: all but one eigenvalue are far below rounding
        X = (1e4 * t * np.arange(1, p + 1)).astype(np.float32)
        panel = icvi.Panel(indices=tuple(i for i in ALL if i.name in ("ni", "rcip", "rh")))
        state = panel.init(2, p, xp=b.xp, dtype=b.dtype)
        for i, x in enumerate(X):
            state, values = panel.step(state, x, np.eye(2)[i % 2], X[[0, -1]])
        assert all(np.isfinite(v) for v in values.values()), values


@pytest.mark.parametrize("engine", ["numpy", "native"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("p", [2, 4, 8])
def test_rounding_of_a_singular_covariance_is_not_shown_as_a_value(p, dtype, engine):
    """Two clusters of n members have a covariance of rank 2 (n − 1): NaN below p if rounding exceeds the ridge."""
    panel = icvi.Panel(indices=(icvi.RepresentativeCIP(), icvi.RepresentativeCrossEntropy()))
    rounding = {"eps": float(np.finfo(dtype).eps), "tiny": 1e-6 if dtype == np.float32 else 1e-12}
    n = 2 * (p // 2 + 2)
    labels = np.arange(n) % 2
    seen = set()
    for scale in (0.1, 1e4 if dtype == np.float32 else 1e8):  # rounding below the ridge, and above it
        X = (scale * np.random.default_rng(p).normal(size=(n, p))).astype(dtype)
        U, V = np.eye(2, dtype=dtype)[labels], np.broadcast_to(X[:2], (n, 2, p))
        if engine == "native":
            with jax.enable_x64(dtype is np.float64):
                got = {k: np.asarray(v) for k, v in icvi.validate(panel, X, memberships=U, centers=V).items()}
        else:
            state, values = panel.init(2, p, xp=np, dtype=dtype), []
            for x, u, v in zip(X, U, V):
                state, one = panel.step(state, x, u, v)
                values.append(one)
            got = {name: np.array([one[name] for one in values]) for name in values[0]}
        for name, t in itertools.product(got, range(3, n)):
            assert got[name].dtype == dtype
            want = value(name, X[: t + 1].astype(float), U[: t + 1], V[: t + 1], **rounding)
            undetermined = t + 1 - 2 < p and scale > 1
            assert np.isnan(got[name][t]) == np.isnan(want) == undetermined, (name, t, got[name][t], want)
            seen.add((scale > 1, undetermined))
            if scale < 1:
                np.testing.assert_allclose(got[name][t], want, rtol=2e-3 if dtype == np.float32 else 1e-6)
    assert seen == {(False, False), (True, False)} | ({(True, True)} if p > 2 else set())


def test_short_memories_are_warned_of():
    for index in (icvi.CalinskiHarabasz, icvi.RMSSTD):
        with pytest.warns(UserWarning, match="dof='none'"):
            icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=11), panel=icvi.Panel(indices=(index(),), forgetting=0.9))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            quiet = icvi.Panel(indices=(index(dof="none"),), forgetting=0.9)
            icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=11), panel=quiet)
            icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=9), panel=icvi.Panel(indices=(index(),), forgetting=0.9))
    with pytest.raises(ValueError, match="dof"):
        icvi.RMSSTD(dof="many")


def test_catalogue():
    entries = icvi.indices.catalogue()
    assert [index.name for index in ALL] == NAMES
    for entry in entries:
        assert entry.index().name == entry.name and entry.goal in ("min", "max") and entry.range[0] < entry.range[1]
        assert entry.meaning.endswith(".") and ("small is good" in entry.meaning) == (entry.goal == "min")
    for index in ALL:
        assert "math::" in type(index).__doc__ and "References" in type(index).__doc__
