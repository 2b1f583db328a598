"""Budget, written from docs/reference/definitions.md alone: numbers of any size by decimals, one row at a time."""

from decimal import Decimal

SECONDS = {"hour": 3600, "day": 86400, "week": 604800, "month": 2629746}
THETA = [Decimal(t) for t in ("1.5", "2", "3", "6", "15", "50")]


def terms(alarms, streams):
    """The factor of a row with so many alarms, for each of the six."""
    return [t**alarms * (-(Decimal(5) / 10000 * streams) * (t - 1)).exp() for t in THETA]


def budget(alarms, time, streams, interval):
    """(rate, agree, expected incidents or alarms in that time, rows between incidents); None: refused."""
    samples = Decimal(streams) * SECONDS[time] / Decimal(interval) if time in SECONDS else int(time)
    rate = Decimal(alarms) / samples
    if 15 * rate >= 1:
        return None
    if rate >= Decimal("1e-4"):
        return float(rate), 1, float(samples * rate), 0
    rows = 1 / (rate * streams)
    for agree in range(2, streams + 1):
        if sum(terms(agree, streams)) / 6 >= rows:
            return 1e-4, agree, float(samples / (streams * rows)), float(rows)
    return None


def incidents(counts, rows, streams):
    """At which rows an incident begins, of the alarms in each row."""
    evidence, begins = [Decimal(0)] * 6, []
    for count in counts:
        evidence = [f * (m + 1) for f, m in zip(terms(int(count), streams), evidence, strict=True)]
        begins.append(sum(evidence) / 6 >= Decimal(rows))
        if begins[-1]:
            evidence = [Decimal(0)] * 6
    return begins
