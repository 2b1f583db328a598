"""Change checkpoints in many ways, and check that each is refused or harmless.

    python tests/slow/mutated_checkpoints.py --files 500

Truncations, bit flips, overwritten ranges, appended bytes, arrays swapped in the file, arrays swapped by somebody who
writes a fresh checksum, other headers with a fresh checksum, a pickle in place of an array, other configurations.
A file that loads must give the very bits that were saved; anything else is counted as a wrong number.
"""

import argparse
import collections
import dataclasses
import hashlib
import io
import json
import os
import pickle
import random
import sys
import tempfile
import zipfile

import jax
import numpy as np

import icvi_jax as icvi
from icvi_jax.checkpoint import container

RAN = os.path.join(tempfile.gettempdir(), f"a checkpoint ran code {os.getpid()}")


class Bomb:
    """What a pickle would run."""

    def __reduce__(self):
        return os.mkdir, (RAN,)


def pipeline():
    return icvi.Pipeline(
        clusterer=icvi.SequentialKMeans(k=3),
        panel=icvi.Panel(indices=(icvi.XieBeni(), icvi.DaviesBouldin()), forgetting=0.9),
        monitors={"xb": icvi.Distress()},
        standardize=icvi.Standardize(forgetting=0.99),
    )


def entries(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def rebuilt(files):
    """An archive of `files` with a right checksum: what an attacker could write."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.comment = container.MARK + b"0" * 64
        for name, content in files.items():
            archive.writestr(name, content)
    body = out.getvalue()[:-64]
    return body + hashlib.sha256(body).hexdigest().encode()


def truncated(content, rng):
    return content[: rng.randrange(len(content))]


def flipped(content, rng):
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def overwritten(content, rng):
    start = rng.randrange(len(content))
    return content[:start] + rng.randbytes(rng.randrange(1, 600)) + content[start + rng.randrange(600) :]


def appended(content, rng):
    return content + rng.choice((b"\0", rng.randbytes(100), content))


def _two_arrays(files, rng):
    """Two arrays of one shape and type, so that nothing but their content tells them apart."""
    arrays = [name for name in files if name.endswith(".npy")]
    alike = [(a, b) for a in arrays for b in arrays if a < b and files[a][:128] == files[b][:128]]
    return rng.choice([(a, b) for a, b in alike if files[a] != files[b]])


def swapped(content, rng):
    """Two arrays change places, the checksum at the end stays."""
    files = entries(content)
    a, b = _two_arrays(files, rng)
    files[a], files[b] = files[b], files[a]
    return rebuilt(files)[:-64] + content[-64:]


def swapped_and_signed(content, rng):
    """Two arrays change places and the checksum is made to fit."""
    files = entries(content)
    a, b = _two_arrays(files, rng)
    files[a], files[b] = files[b], files[a]
    return rebuilt(files)


def header_changed(content, rng):
    """A header that says something else, with a checksum that fits."""
    files = entries(content)
    header = json.loads(files[container.HEADER])
    change = rng.choice([key for key in header if key not in ("extra", "room", "part", "names")])
    values = None, 2, -1, 10**15, "x", [], [7], {}, "float16", float("nan")
    if rng.random() < 0.3:
        del header[change]
    else:
        header[change] = rng.choice([value for value in values if value != header[change]])
    return rebuilt({**files, container.HEADER: json.dumps(header)})


def pickled(content, rng):
    """An array of objects, which NumPy would load by running a pickle."""
    files = entries(content)
    name = rng.choice([name for name in files if name.endswith(".npy")])
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "|O", "fortran_order": False, "shape": (1,)})
    return rebuilt({**files, name: out.getvalue() + pickle.dumps(np.array([Bomb()], object))})


def foreign(content, rng):
    """Something else under the name of a checkpoint."""
    other = io.BytesIO()
    np.savez(other, a=np.zeros(3))
    return rng.choice((b"", b"hello", other.getvalue(), pickle.dumps(Bomb()), rng.randbytes(3000)))


MUTATIONS = (
    truncated,
    flipped,
    overwritten,
    appended,
    swapped,
    swapped_and_signed,
    header_changed,
    pickled,
    foreign,
)


def other_pipeline(pipe, rng):
    """The same pipeline except for one field."""
    panel, clusterer = pipe.panel, pipe.clusterer
    return rng.choice(
        (
            dataclasses.replace(pipe, panel=dataclasses.replace(panel, forgetting=rng.uniform(0.1, 0.89))),
            dataclasses.replace(pipe, panel=dataclasses.replace(panel, indices=panel.indices[:1])),
            dataclasses.replace(pipe, panel=dataclasses.replace(panel, indices=panel.indices[::-1])),
            dataclasses.replace(pipe, clusterer=dataclasses.replace(clusterer, k=rng.choice((2, 4)))),
            dataclasses.replace(pipe, clusterer=dataclasses.replace(clusterer, seeding="distinct")),
            dataclasses.replace(pipe, standardize=None),
            dataclasses.replace(pipe, monitors={}),
        )
    )


def bits(state):
    return [(a.dtype.str, a.shape, a.tobytes()) for a in map(np.asarray, jax.tree.leaves(state))]


def main(argv=None):
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--files", type=int, default=500)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args(argv)
    rng = random.Random(given.seed)
    pipe = pipeline()
    X = np.random.default_rng(0).normal(size=(4, 60, 2)).astype(np.float32)
    state = icvi.run_fleet(pipe, X, backend="numpy").state
    counts = collections.defaultdict(collections.Counter)
    messages = {}
    with tempfile.TemporaryDirectory() as folder:
        file = icvi.save(os.path.join(folder, "good.icvi"), pipe, state, position=[60] * 4, names=list("abcd"))
        content = file.read_bytes()
        assert bits(icvi.load(file, pipe)) == bits(state)
        for i in range(given.files):
            kind = (*MUTATIONS, other_pipeline)[i % (len(MUTATIONS) + 1)]
            bad = os.path.join(folder, "bad.icvi")
            wanted = other_pipeline(pipe, rng) if kind is other_pipeline else pipe
            changed = content if kind is other_pipeline else kind(content, rng)
            with open(bad, "wb") as out:
                out.write(changed)
            try:
                got = icvi.load_checkpoint(bad, wanted)
            except icvi.CheckpointError as problem:
                outcome = "refused"
                messages[kind.__name__] = str(problem).replace(folder + os.sep, "")
            else:
                same = bits(got.state) == bits(state) and list(got.position) == [60] * 4 and got.names == tuple("abcd")
                outcome = "harmless" if same and kind is not other_pipeline else "WRONG"
            counts[kind.__name__][outcome] += 1
        ran = os.path.isdir(RAN)
        if ran:
            os.rmdir(RAN)
    for kind, found in counts.items():
        print(f"{kind:20} {dict(found)}  {messages.get(kind, '')}")
    wrong = sum(found["WRONG"] for found in counts.values())
    refused = sum(found["refused"] for found in counts.values())
    print(f"{given.files} files: {refused} refused, {given.files - refused - wrong} harmless, {wrong} wrong", end=", ")
    print("code was run" if ran else "no code run")
    return 1 if wrong or ran else 0


if __name__ == "__main__":
    sys.exit(main())
