"""Engines of a fleet: what is forced is done or refused, and nothing is compiled twice."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fleets import FIELDS, pipeline, recording, same
from jax.sharding import Mesh

import icvi_jax as icvi
from icvi_jax.engine import executor
from icvi_jax.spec import spec


def test_other_numbers_and_other_streams_do_not_compile():
    X = recording()
    icvi.run_fleet(pipeline(), X, keep=FIELDS)
    icvi.run(pipeline(), X[0])
    made = dict(executor._programs)
    icvi.run_fleet(pipeline(forgetting=0.8), recording(N=40, T=30, seed=1), keep=FIELDS)
    icvi.run(pipeline(forgetting=0.8), X[1])
    assert executor._programs == made


def test_a_step_without_native_form_runs_all_the_same_and_says_so_once():
    @spec
    class Odd(icvi.SequentialKMeans):
        def step(self, state, x, seen):
            return super().step(state, x + 0 * jax.lax.lgamma(jnp.abs(x) + 1), seen)

    panel = icvi.Panel(indices=(icvi.XieBeni(),))
    pipe, X = icvi.Pipeline(clusterer=Odd(k=3), panel=panel), recording()
    with pytest.warns(RuntimeWarning, match="lgamma.*XLA runs this step") as heard:
        first = icvi.run(pipe, X[0])
        icvi.run(pipe, X[4])
    assert len(heard) == 1
    plain = icvi.Pipeline(clusterer=icvi.SequentialKMeans(k=3), panel=panel)
    same(first.readings, icvi.run(plain, X[0]).readings)


def test_what_is_forced_is_done_or_refused(monkeypatch):
    X = recording()[0]
    monkeypatch.setenv("ICVI_BACKEND", "cuda")
    with pytest.raises(ValueError, match="ICVI_BACKEND=cuda: choose one of native, xla,"):
        icvi.run(pipeline(), X)
    monkeypatch.setenv("ICVI_BACKEND", "native")
    with pytest.raises(ValueError, match="ICVI_BACKEND=native: .*mesh"):
        icvi.run_fleet(pipeline(), X[None], mesh=Mesh(np.array(jax.devices()[:1]), ("streams",)))
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    for _ in range(2):  # not only at the first call
        with pytest.raises(ValueError, match="ICVI_BACKEND=native: .*not installed"):
            icvi.run(pipeline(k=7), X)
    monkeypatch.delenv("ICVI_BACKEND")
    assert np.isfinite(icvi.run(pipeline(k=7), X).readings.values["xb"][-1])  # XLA serves


def test_a_thread_that_asks_while_another_compiles_has_native_code_too(monkeypatch):
    began, compiled = threading.Event(), executor.compile_step

    def slowly(*args, **settings):
        began.set()
        time.sleep(0.5)
        return compiled(*args, **settings)

    def run_on_devices(*_, **__):
        raise AssertionError("XLA ran it")

    monkeypatch.setattr(executor, "compile_step", slowly)
    monkeypatch.setattr(executor, "run_on_devices", run_on_devices)
    pipe, X = pipeline(k=9), recording()[0]
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(icvi.run, pipe, X)
        assert began.wait(60)
        second = pool.submit(icvi.run, pipe, X)
        same(first.result().readings, second.result().readings)
