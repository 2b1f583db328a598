"""What of JAX is not its public interface: where it is used, and what broke when a new version changes it."""

import ast
import subprocess
import sys
from pathlib import Path

import jax
import jax.extend.core as extended
import jax.extend.core.primitives as known_primitives
import jax.numpy as jnp
import pytest
from jax import lax

import icvi_jax
from icvi_jax.engine.lowering.rules import RULES
from icvi_jax.engine.lowering.unroll import CONTROL, scan_sizes

PACKAGE = Path(icvi_jax.__file__).parent
README = PACKAGE.parent / "README.md"
NOT_PUBLIC = ("jax._src", "jax.experimental", "jax.extend", "jax.interpreters", "jaxlib")
ALLOWED = {
    "engine/primitive.py": {"jax.experimental", "jax.extend", "jax.interpreters"},  # the first: custom_partitioning
    "engine/scan.py": {"jax.extend"},
    "engine/native/cuda.py": {"jax.extend"},
    "engine/lowering/rules.py": {"jax.extend"},
    "engine/lowering/unroll.py": {"jax.extend"},
}
"""Files that may use what JAX calls private or experimental; a file more needs a reason and a test here."""
NEWER = {"stack": (0, 10), "unstack": (0, 10), "log2": (0, 11), "one_minus_square": (0, 11), "polynomial": (0, 11)}
UNLISTED = {"copy_p", "expand_dims", "mesh_cast", "pcast", "pvary", "reshard"}  # of other versions, or not exported


def modules_of(source):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_private_and_experimental_parts_of_jax_are_used_where_listed():
    used = {}
    for file in PACKAGE.rglob("*.py"):
        for module in modules_of(file.read_text(encoding="utf-8")):
            for part in NOT_PUBLIC:
                if module == part or module.startswith(part + "."):
                    used.setdefault(str(file.relative_to(PACKAGE)), set()).add(part)
    more = {file: parts - ALLOWED.get(file, set()) for file, parts in used.items()}
    assert not {file: parts for file, parts in more.items() if parts}, "use it in one of the files listed here"
    assert set(ALLOWED) <= set(used), f"no longer needed: {sorted(set(ALLOWED) - set(used))}"


def test_a_rule_is_told_of_the_devices():
    """By a set of JAX's own that `engine/primitive.py` loads by name; without it, divided arrays would be gathered."""
    from jax._src import dispatch

    from icvi_jax.engine.primitive import scan_p

    assert scan_p in dispatch.prim_requires_devices_during_lowering


def test_a_jaxpr_has_the_parts_that_the_engine_reads():
    closed = jax.make_jaxpr(lambda x: x + 1)(1.0)
    assert isinstance(closed, extended.ClosedJaxpr) and isinstance(closed.jaxpr, extended.Jaxpr)
    (equation,) = closed.jaxpr.eqns
    assert isinstance(equation, extended.JaxprEqn) and equation.primitive.name == "add"
    assert isinstance(equation.invars[1], extended.Literal), "constants in a jaxpr are no longer literals with .val"


def test_the_sizes_of_a_scan_are_found():
    def step(a, X):
        return lax.scan(lambda c, x: ((c[0] + a * x, c[1] - x), (c[0], x)), (a, a), X)

    (equation,) = [e for e in jax.make_jaxpr(step)(1.0, jnp.ones(3)).eqns if e.primitive.name == "scan"]
    assert scan_sizes(equation) == (1, 2), f"scan has other parameters: {sorted(equation.params)}"


@pytest.mark.parametrize("name", sorted({*RULES, *CONTROL} - UNLISTED))
def test_a_primitive_that_has_a_rule_has_its_name_still(name):
    if jax.__version_info__ < NEWER.get(name, (0,)):
        pytest.skip(f"JAX {jax.__version__} has no {name}")
    spaces = (lax, known_primitives)
    names = {
        p.name.replace("-", "_") for space in spaces for p in vars(space).values() if isinstance(p, extended.Primitive)
    }
    assert name.replace("-", "_") in names, (
        f"JAX {jax.__version__} has no primitive {name!r}: steps that use its successor run on XLA"
    )


def test_the_readme_runs_where_deprecations_are_errors():
    code = f"import doctest, sys; sys.exit(doctest.testfile({str(README)!r}, module_relative=False, optionflags=12)[0])"
    strict = [sys.executable, "-W", "error::DeprecationWarning", "-W", "error::PendingDeprecationWarning"]
    if not README.exists():
        pytest.skip("the README is not part of this installation")
    said = subprocess.run([*strict, "-c", code], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr


def test_the_command_runs_where_deprecations_are_errors(tmp_path):
    strict = [sys.executable, "-W", "error::DeprecationWarning", "-m", "icvi_jax.cli", "run", "--out", str(tmp_path)]
    said = subprocess.run(strict, capture_output=True, text=True, check=False)
    assert said.returncode == 0 and (tmp_path / "report.html").stat().st_size, said.stderr
