r"""Agreement: so many nodes of a fleet have an alarm at once that it is no chance.

If quiet nodes are independent given the past, each with a chance of at most q of an alarm, the number A of alarms in a
row of N nodes satisfies :math:`E[θ^A] ≤ e^{λ(θ−1)}`, λ = N q. So :math:`L_θ = θ^A e^{−λ(θ−1)}` is an e-value, and
:math:`M_θ ← L_θ (M_θ + 1)`, Shiryaev–Roberts, is an e-detector: incidents where the mean of some :math:`M_θ` reaches R
come at least R rows apart on average while nothing happens (Shin, Ramdas and Rinaldo, 2024). It sees many alarms in one
row, and somewhat more than usual in many rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

RATIOS = (1.5, 2.0, 3.0, 6.0, 15.0, 50.0)
"""θ: how many times as many alarms as quiet nodes have; large ones are for small fleets."""


class Agreement:
    """Says at which rows a fleet has an incident.

    Parameters
    ----------
    mean : λ, the most alarms a row to expect of quiet nodes, of all of them together.
    rows : R, the rows between two false incidents, on average at least.

    Examples
    --------
    >>> fleet = Agreement(mean=0.5, rows=1000)
    >>> [fleet.add(row, alarms) for row, alarms in ((0, 1), (1, 0), (2, 9), (3, 0))]
    [False, False, True, False]
    """

    def __init__(self, mean: float, rows: float) -> None:
        self.mean, self.rows = mean, rows
        self.row, self.begun, self.alarms, self.evidence = -1, -1, 0, [0.0] * len(RATIOS)

    def add(self, row: int, alarms: int = 1) -> bool:
        """Count alarms of a row, also one by one; True where there are now so many that an incident begins.

        Those of an earlier row count as of the present one, and the rest of the row of an incident belongs to it.
        """
        if row <= self.begun:
            return False
        if row > self.row:
            past = 0 if self.row < 0 else row - self.row - (self.begun == self.row)
            if past:  # rows that are over: one with its alarms, the others without
                self.evidence, self.alarms = self._quiet(self._now(), past - 1), 0
            self.row = row
        self.alarms += alarms
        begins = sum(self._now()) >= self.rows * len(RATIOS)
        if begins:
            self.begun, self.evidence, self.alarms = self.row, [0.0] * len(RATIOS), 0
        return begins

    @property
    def needed(self) -> int:
        """Alarms in one row that are an incident, whatever was before it."""
        most = 1
        while sum(_e_value(ratio, most, self.mean) for ratio in RATIOS) < self.rows * len(RATIOS):
            most += 1
        return most

    def stored(self) -> list[float]:
        """What a restart needs."""
        return [float(self.row), float(self.begun), float(self.alarms), *self.evidence]

    def restore(self, stored: Sequence[float]) -> None:
        """Go on from what `stored` returned."""
        self.row, self.begun, self.alarms = (int(number) for number in stored[:3])
        self.evidence = [float(number) for number in stored[3:]]

    def _now(self) -> list[float]:
        return [_e_value(ratio, self.alarms, self.mean) * (m + 1) for ratio, m in zip(RATIOS, self.evidence)]

    def _quiet(self, evidence: list[float], rows: int) -> list[float]:
        """The evidence after so many rows without alarms: the sum of M' = L (M + 1)."""
        falls = [self.mean * (ratio - 1) for ratio in RATIOS]  # of log L
        sums = [math.expm1(-a * rows) / math.expm1(-a) for a in falls]
        return [math.exp(-a * rows) * m + math.exp(-a) * s for a, s, m in zip(falls, sums, evidence)]


def _e_value(ratio: float, alarms: int, mean: float) -> float:
    return math.exp(min(alarms * math.log(ratio) - mean * (ratio - 1), 700.0))
