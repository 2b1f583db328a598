"""Budget: rates, agreement and incidents, written from docs/reference/definitions.md alone."""

from math import ceil, exp, log

import numpy as np

SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800, "month": 2629746}


def budget(number, time, streams=1, interval=1.0):
    """(rate of all monitors of a stream together, agree) of "number/time"; None where it is refused."""
    rate = number / (streams * SECONDS[time] / interval) if time in SECONDS else number / float(time)
    if rate >= 1 / 15:
        return None
    if rate >= 1e-4:
        return rate, 1
    expected = 3 * 1e-4 * 5 * streams
    for A in range(max(2, ceil(expected)), streams + 1):
        if A > expected and exp(A - expected - A * log(A / expected)) <= streams * rate:
            return 1e-4, A
    return None


def incidents(alarms, agree):
    """Rows at which an incident begins; alarms: booleans (rows, streams)."""
    counts = [int(np.sum(alarms[max(0, t - 4) : t + 1])) for t in range(len(alarms))]
    return [t for t, a in enumerate(counts) if a >= agree and (t == 0 or counts[t - 1] < agree)]
