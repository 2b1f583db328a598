"""Budget: rates, agreement and incidents, written from docs/reference/definitions.md alone."""

from math import exp

RATIOS = 1.5, 2, 3, 6, 15, 50
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
    rows = 1 / (rate * streams)
    for A in range(2, streams + 1):
        if sum(factor(A, ratio, streams) for ratio in RATIOS) / 6 >= rows:
            return 1e-4, A, samples / (streams * rows)
    return None


def factor(alarms, ratio, streams):
    """What one row with so many alarms multiplies the evidence for this ratio by."""
    return ratio**alarms * exp(-5e-4 * streams * (ratio - 1))


def incidents(alarms, rows):
    """Rows at which an incident begins; alarms: booleans (rows, streams)."""
    evidence, found = [0.0] * 6, []
    for t, row in enumerate(alarms):
        now = sum(bool(one) for one in row)
        evidence = [factor(now, ratio, len(row)) * (m + 1) for ratio, m in zip(RATIOS, evidence)]
        if sum(evidence) / 6 >= rows:
            evidence = [0.0] * 6
            found.append(t)
    return found
