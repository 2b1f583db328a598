"""The paper's claims, each measured over many seeds: `table(study)`; LG and GSA where the published files are.

A claim holds, holds partly, or fails, by the rule in the function that measures it; "not run" where a file is missing.
"""

from __future__ import annotations

import numpy as np
from claim_tools import Claim, agreement, drops, level, rise, rises
from claims_recorded import gas, le_genepi
from study import CHUNK, STREAMS, TOLERANCE

from icvi_jax.evaluation import match

FOUR = {"XB_λ": ("xb", 0.9), "DB_λ": ("db", 0.9), "XB": ("xb", 1.0), "DB": ("db", 1.0)}
CELLS = [(stream, clusterer) for stream in STREAMS for clusterer in ("oec", "kmeans")]


def forgetting(study):
    """Rises at the changes of S2 and S3, first against last, with and without forgetting."""
    with_, without = study["s2", "oec", 0.9], study["s2", "oec", 1.0]
    xb, db, xb1, db1 = rises(with_, "xb"), rises(with_, "db"), rises(without, "xb"), rises(without, "db")
    lost = rises(study["s2", "kmeans", 1.0], "xb")
    shown = [f"{name} ×{r[0]:.0f} → ×{r[-1]:.0f}" for name, r in zip(FOUR, (xb, db, xb1, db1))]
    kept = min(xb[-1] / xb[0], db[-1] / db[0]) > 0.8 and xb.min() > 2 * xb1.max() and db.min() > 2 * db1[-1]
    faded = max(xb1[-1] / xb1[0], db1[-1] / db1[0]) < 0.5
    return Claim(
        "With forgetting jumps stay visible; without it the index saturates",
        f"S2, rise at the first → the last change: OEC {', '.join(shown)}; k-means XB ×{lost[0]:.1f} → ×{lost[-1]:.2f}",
        "holds" if kept and faded else "partly" if kept else "fails",
        "With forgetting, yes. Without, k-means' index is flat in the end and DB's rises shrink, but XB's with OEC do "
        "not: a cluster is born close to its neighbour, so h falls for some samples whatever is remembered.",
    )


def births(study):
    """Births of clusters at which XB_λ, soon before or after, is 3 times its median before."""
    hits = []
    for name in ("s2", "s3"):
        cell = study[name, "oec", 0.9]
        for values, k, stream in zip(cell.values["xb"], cell.k, cell.streams):
            born = np.flatnonzero(np.diff(k[: len(stream.x)]) > 0) + 1
            born = born[born > 100]  # a past to compare with
            before = [np.nanmedian(values[b - 65 : b - 15]) for b in born]
            hits += [np.nanmax(values[b - 15 : b + 15]) > 3 * level for b, level in zip(born, before)]
    share = np.mean(hits)
    return Claim(
        "A new cluster makes a spike",
        f"OEC on S2 and S3: XB_λ triples at {share:.1%} of {len(hits)} births",
        "holds" if share > 0.95 else "partly" if share > 0.5 else "fails",
    )


def falls(study):
    """How long XB_λ takes from the highest value after a change half way back (on a log scale), up to the next change."""
    times = {}
    for clusterer in ("oec", "kmeans"):
        cell, times[clusterer] = study["s2", clusterer, 0.9], []
        for values, stream in zip(cell.values["xb"], cell.streams):
            for c, end in zip(stream.changes, [*stream.changes[1:], len(stream.x)]):
                y = np.log(values[c:end]) - np.log(np.nanmedian(values[c - 50 : c]))
                back = np.flatnonzero(y[y.argmax() :] <= y.max() / 2)
                times[clusterer].append(back[0] if len(back) else np.inf)
    learned, failing = (np.array(times[c]) for c in ("oec", "kmeans"))
    return Claim(
        "A sharp drop after a spike means learned, a slow decline means failing",
        f"S2, half way back after (median): OEC, which learns every step, {np.median(learned):.0f} samples; k-means, "
        f"which does not, never before the next step in {np.mean(np.isinf(failing)):.0%} of cases",
        "holds" if np.median(learned) < 50 and np.median(failing) > 100 else "fails",
    )


def rising(study):
    """Level of XB_λ at the end of each block of S2, block after block; and what is left of the true modes."""
    cell = study["s2", "kmeans", 0.9]
    ends = [*cell.streams[0].changes, len(cell.streams[0].x)]
    levels = np.stack([np.nanmedian(cell.values["xb"][:, e - 50 : e], axis=1) for e in ends], axis=1)
    always = np.mean((np.diff(levels) > 0).all(axis=1))
    stands = np.mean(cell.standing[:, ends[-1] - 1])
    return Claim(
        "k-means fails on S2, and XB_λ rises from step to step",
        f"Rand index with the truth {np.median(agreement(cell)):.2f}; higher after every one of the ten steps in "
        f"{always:.0%} of seeds, ×{np.median(levels[:, -1] / levels[:, 0]):.0f} in all; distress stands at the end in "
        f"{stands:.0%}",
        "holds" if always > 0.9 and np.median(agreement(cell)) < 0.2 else "fails",
    )


def partial(study):
    """Drops of XB_λ with k-means on S3 and whether one is within 100 samples of 800, and of 1500."""
    cell = study["s3", "kmeans", 0.9]
    found = [[t for t in drops(v[: len(s.x)]) if t > 400] for v, s in zip(cell.values["xb"], cell.streams)]
    near = [np.mean([any(abs(t - place) <= 100 for t in one) for one in found]) for place in (800, 1500)]
    some, rand = np.mean([len(one) > 0 for one in found]), np.median(agreement(cell))
    counts = np.bincount(np.concatenate([np.asarray(one, int) // 100 for one in found]))
    usual = [100 * i for i in np.argsort(-counts)[:3]]
    return Claim(
        "k-means learns S3 in part, with drops of XB_λ near 800 and 1500",
        f"Rand index {rand:.2f}; XB_λ halves after sample 400 in {some:.0%} of seeds; near 800 in {near[0]:.0%}, near "
        f"1500 in {near[1]:.0%}; most often in the hundreds from {', '.join(map(str, sorted(usual)))} on",
        "holds" if min(near) > 0.8 and 0.2 < rand < 0.8 else "partly" if some > 0.8 and 0.2 < rand < 0.8 else "fails",
        "The drops are there. At most of them h stays as it was and the dispersion falls: a centre has reached the mode "
        "that pulls it. When it does depends on the draw, and the paper shows one.",
    )


def alike(study):
    """Correlation of log XB_λ and log DB_λ on S1 with k-means, and their median ratio."""
    cell = study["s1", "kmeans", 0.9]
    pairs = [(np.log(a), np.log(b)) for a, b in zip(cell.values["xb"][:, 50:], cell.values["db"][:, 50:])]
    pairs = [(a[ok], b[ok]) for a, b in pairs for ok in [np.isfinite(a) & np.isfinite(b)]]
    r = np.median([np.corrcoef(a, b)[0, 1] for a, b in pairs])
    ratio = np.median([np.exp(np.median(np.abs(a - b))) for a, b in pairs])
    return Claim(
        "XB_λ and DB_λ are almost alike on S1",
        f"k-means: correlation of the logarithms {r:.2f}, and half of the time they are within a factor of {ratio:.3f}",
        "holds" if r > 0.9 and ratio < 1.1 else "fails",
    )


def above(study):
    """Median XB_λ of k-means over that of OEC, seed by seed."""
    ratios = {s: level(study[s, "kmeans", 0.9]) / level(study[s, "oec", 0.9]) for s in STREAMS}
    far = {s: np.mean(r > 3) for s, r in ratios.items()}
    return Claim(
        "k-means' values are far above OEC's",
        "XB_λ of k-means over OEC's (median): "
        + ", ".join(f"{s.upper()} ×{np.median(ratios[s]):.2g}" for s in STREAMS),
        "holds" if min(far.values()) > 0.9 else "partly" if max(far.values()) > 0.9 else "fails",
        "On S2 and S3 by orders of magnitude. On S1 k-means is given the right k = 2 and two modes it can tell apart, "
        "and is below OEC, which has one cluster for a long time, or for good.",
    )


def stretched(study):
    """Floor (tenth percentile) of the index in the blocks after a cluster of S3 became longer than 3, over that before.

    All modes have standard deviation 1. Seeds in which no cluster grows so long are the control, split in the middle.
    """
    cell = study["s3", "oec", 0.9]
    long = np.sqrt(np.linalg.eigvalsh(cell.shapes)[..., -1]) > 3
    long = (long & np.isfinite(cell.centers[..., 0])).any(axis=-1)[:, 200 // CHUNK - 1 : 2000 // CHUNK : 200 // CHUNK]
    ratios = {(index, kind): [] for index in ("xb", "db") for kind in (True, False)}
    for index in ("xb", "db"):
        blocks = cell.values[index][:, :2000].reshape(-1, 10, 200)[:, :, 60:]
        for floor, row in zip(np.nanpercentile(blocks, 10, axis=2), long):
            first = int(row.argmax()) if row.any() else 5
            if 2 <= first <= 8:  # blocks enough before and after
                ratios[index, bool(row.any())].append(np.median(floor[first:]) / np.median(floor[1:first]))
    xb, xb0, db, db0 = (float(np.median(r)) if r else np.nan for r in ratios.values())
    return Claim(
        "OEC's index on S3 does not fall any more after a prototype is stretched",
        f"a cluster grows longer than 3 (modes: 1) in {long.any(axis=1).mean():.0%} of seeds; floor after over before: "
        f"XB_λ ×{xb:.2f}, DB_λ ×{db:.2f}; in seeds without: XB_λ ×{xb0:.2f}, DB_λ ×{db0:.2f}",
        "holds" if min(xb, db) > 0.9 and db0 < 0.9 else "fails",
    )


def noise(study):
    """Rise at a sample of S3's noise, and false spikes, XB_λ against DB_λ with OEC."""
    cell, jump, false = study["s3", "oec", 0.9], {}, {}
    for index in ("xb", "db"):
        jumps, wrong = [], []
        for values, codes, s in zip(cell.values[index], cell.codes[index], cell.streams):
            t = np.flatnonzero(s.noise)
            t = t[(t > 200) & (t % 200 > 60)]  # away from changes
            jumps.append(values[t] / values[t - 1])
            spikes = np.flatnonzero(codes[: len(s.x)] == 1).tolist()
            wrong.append(match(spikes, s.changes, TOLERANCE["s3"], len(s.x)).false_per_1000)
        jump[index], false[index] = np.concatenate(jumps), np.mean(wrong)
    (x, x9), (d, d9) = (np.percentile(jump[index], [50, 90]) for index in ("xb", "db"))
    return Claim(
        "DB_λ is more sensitive to systematic noise",
        f"OEC on S3, rise at a noise sample, median and 90 %: XB_λ ×{x:.1f}, ×{x9:.1f}; DB_λ ×{d:.1f}, ×{d9:.1f}; false "
        f"spikes per 1000: {false['xb']:.1f} and {false['db']:.1f}",
        "holds" if d > x and false["db"] > false["xb"] else "fails",
    )


def reliable(study):
    """Mean over S1–S3 and both clusterers of F1 of the monitor's spikes, and of the probability that a rise at a change
    is larger than one elsewhere (which needs no monitor and no threshold)."""
    f1, order = {name: [] for name in FOUR}, {name: [] for name in FOUR}
    for name, (index, lam) in FOUR.items():
        for stream, clusterer in CELLS:
            cell, wait = study[stream, clusterer, lam], TOLERANCE[stream]
            found, there, elsewhere = [], [], []
            for values, codes, s in zip(cell.values[index], cell.codes[index], cell.streams):
                spikes = np.flatnonzero(codes[: len(s.x)] == 1).tolist()
                found.append(match(spikes, s.changes, wait, len(s.x)).f1)
                c = np.array(s.changes)
                quiet = [t for t in range(110, len(s.x) - wait, 17) if ((t + wait < c) | (t > c + 120)).all()]
                there += [rise(values, t, wait + 1) for t in c]
                elsewhere += [rise(values, t, wait + 1) for t in quiet]
            f1[name].append(np.mean(found))
            order[name].append(np.mean(np.array(there)[:, None] > np.array(elsewhere)))
    scores = {name: (np.mean(f1[name]), np.mean(order[name])) for name in FOUR}
    best = [max(scores, key=lambda name: scores[name][i]) == "XB_λ" for i in (0, 1)]
    return Claim(
        "XB_λ is the most reliable of the four",
        "F1 of spikes, and how often a rise at a change tops one elsewhere: "
        + ", ".join(f"{name} {a:.2f} {b:.0%}" for name, (a, b) in scores.items()),
        "holds" if all(best) else "partly" if any(best) else "fails",
        "One of the two measures prefers another index.",
    )


def better(study):
    """Adjusted Rand index with the true modes, OEC against k-means on the same draw."""
    rand = {s: (agreement(study[s, "oec", 0.9]), agreement(study[s, "kmeans", 0.9])) for s in STREAMS}
    wins = {s: np.mean(a > b) for s, (a, b) in rand.items()}
    return Claim(
        "OEC is better than k-means on S1, S2 and S3",
        "Rand index OEC, k-means (median), OEC better in: "
        + "; ".join(f"{s.upper()} {np.median(a):.2f}, {np.median(b):.2f}, {wins[s]:.0%}" for s, (a, b) in rand.items()),
        "holds" if min(wins.values()) > 0.5 else "partly" if max(wins.values()) > 0.5 else "fails",
        "On S1 this reconstruction of OEC often leaves the second mode inside the first one's ellipse; k-means knows k.",
    )


MEASURES = (forgetting, births, falls, rising, partial, alike, above, stretched, noise, reliable, better)


def table(study, lg=None, gsa=None, start=0, length=300) -> list[Claim]:
    """All claims; `lg` and `gsa` are paths of the published files, `start` and `length` the part of GSA in seconds."""
    claims = [measure(study) for measure in MEASURES]
    recordings = {
        "LG: two close spikes, and k-means below OEC": (lg, le_genepi, ()),
        "GSA: the third event is small, and OEC below k-means": (gsa, gas, (start, length)),
    }
    for text, (path, measure, more) in recordings.items():
        claims.append(
            Claim(text, "needs the published file", "not run") if path is None else measure(text, path, *more)
        )
    return claims


def as_text(claims: list[Claim]) -> str:
    """The table as Markdown, with the reasons under it."""
    lines = ["| claim | measured | verdict |", "|---|---|---|"]
    lines += [f"| {c.text} | {c.measured} | **{c.verdict}** |" for c in claims]
    why = [f"* *{c.text}*: {c.verdict}. {c.why}" for c in claims if c.why and c.verdict in ("partly", "fails")]
    return "\n".join([*lines, "", *why])
