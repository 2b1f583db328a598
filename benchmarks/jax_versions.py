"""Smoke tests and a sample of the laws on the versions of JAX that are supported, each in its own environment.

    python benchmarks/jax_versions.py [0.8 0.9 0.10] [--folder DIR] [--tests "ARGUMENTS OF PYTEST"]

Needs the network, for pip. An environment that is there already is used again. The gate runs the newest version.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import venv

HERE = pathlib.Path(__file__).resolve().parents[1]
NEEDED = ["pytest", "hypothesis", "chex", "array-api-strict", "scipy", "narwhals"]
SMOKE = """if True:
    import warnings
    warnings.simplefilter("error")
    import jax, jax.numpy as jnp, numpy as np, icvi_jax as icvi

    X = np.random.default_rng(0).normal(size=(40, 120, 2)) + 5 * np.random.default_rng(1).integers(0, 3, (40, 120, 1))
    panel = icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=0.9)
    for clusterer in (icvi.SequentialKMeans(k=3), icvi.OnlineEllipsoidal(capacity=4)):
        pipe = icvi.Pipeline(clusterer=clusterer, panel=panel, monitors={"xb": icvi.Distress()})
        fleet = icvi.run_fleet(pipe, X, keep=icvi.Reading._fields)
        live = icvi.Live(pipe, 2, 40)
        ticks = [live.tick(X[:, t]).values["xb"] for t in range(60)]
        assert np.array_equal(np.stack(ticks, 1), fleet.readings.values["xb"][:, :60], equal_nan=True)
        with jax.enable_x64(True):
            exact = icvi.run_fleet(pipe, X).readings
        same = (exact.label == fleet.readings.label).all(1)
        fine = np.isfinite(exact.values["xb"][same])
        assert same.mean() > 0.9 and fine.mean() > 0.5
        np.testing.assert_allclose(fleet.readings.values["xb"][same][fine], exact.values["xb"][same][fine], rtol=1e-3)
        final, readings = jax.jit(lambda X: jax.lax.scan(pipe.step, pipe.init(2), X))(jnp.asarray(X[0], jnp.float32))
        np.testing.assert_allclose(readings.values["xb"], fleet.readings.values["xb"][0], rtol=1e-3)
        slope = jax.grad(lambda X: icvi.run(pipe, X).readings.values["xb"][-1])(jnp.asarray(X[0], jnp.float32))
        assert np.isfinite(slope).all()
    values = icvi.validate(panel, X[0], labels=np.arange(120) % 3)
    assert np.isfinite(values["db"][-1])
    print("smoke: fine on jax", jax.__version__)
"""


def environment(version: str, folder: pathlib.Path) -> pathlib.Path:
    """The Python of an environment with this version of JAX and the project's own dependencies."""
    home = folder / f"jax-{version}"
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
        wanted = [f"jax=={version}.*", *NEEDED, "llvmlite", "array-api-compat", "numpy"]
        subprocess.run([python, "-m", "pip", "install", "-q", *wanted], check=True)
    return python


def tried(version: str, folder: pathlib.Path, tests: str) -> bool:
    """Whether smoke tests and the chosen tests pass on a version."""
    python = environment(version, folder)
    paths = {**os.environ, "PYTHONPATH": str(HERE), "JAX_PLATFORMS": "cpu"}
    for engine in ("llvm", "xla"):
        if subprocess.run([python, "-c", SMOKE], env={**paths, "ICVI_BACKEND": engine}, cwd=folder).returncode:
            return False
    plain = ["-p", "no:cacheprovider", "-o", "addopts=-q"]
    return not subprocess.run([python, "-m", "pytest", *plain, *tests.split()], env=paths, cwd=HERE).returncode


def main() -> int:
    """Try the versions in turn."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("versions", nargs="*", default=["0.8", "0.9", "0.10"])
    place = pathlib.Path(tempfile.gettempdir(), "icvi-jax-versions")
    options.add_argument("--folder", type=pathlib.Path, default=place)
    options.add_argument("--tests", default="tests/test_laws.py -k jax32", help="given to pytest")
    given = options.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    found = {version: tried(version, given.folder, given.tests) for version in given.versions}
    for version, fine in found.items():
        print(f"jax {version}: {'fine' if fine else 'FAILED'}")
    return 0 if all(found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
