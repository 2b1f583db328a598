"""Budget: rates, agreement and incidents, written from docs/reference/definitions.md alone."""

from math import ceil, exp, log

import numpy as np

SECONDS = {"hour": 3600, "day": 86400, "week": 604800, "month": 2629746}


def budget(number, time, streams, interval):
    """(rate of all monitors of a stream together, agree, expected) of "number/time"; None where it is refused."""
    samples = streams * SECONDS[time] / interval if time in SECONDS else float(time)
    rate = number / samples
    samples = samples if time in SECONDS else 10_000
    if rate >= 1 / 15:
        return None
    if rate >= 1e-4:
        return rate, 1, samples * rate
    many = 3 * 1e-4 * 5 * streams
    for A in range(max(2, ceil(many)), streams + 1):
        bound = exp(A - many - A * log(A / many)) if A > many else 1
        if bound <= streams * rate:
            return 1e-4, A, samples * bound / streams
    return None


def incidents(alarms, agree):
    """Rows at which an incident begins; alarms: booleans (rows, streams)."""
    counts = [int(np.sum(alarms[max(0, t - 4) : t + 1])) for t in range(len(alarms))]
    return [t for t, a in enumerate(counts) if a >= agree and (t == 0 or counts[t - 1] < agree)]
