"""Incidents: alarms of several nodes close in time are one thing that happened, told in one sentence.

A rate below 1e-4 a sample cannot be promised for one node. But false alarms of different nodes are independent, and
what happens to a site happens to several of its nodes: so `--agree M` tells only what M nodes say within some minutes,
and a budget such as 1/week over many nodes only what its `Agreement` says of the alarms of columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from icvi_jax.array_api import Stored
from icvi_jax.monitors.agreement import Agreement
from icvi_jax.monitors.budget import SECONDS, Budget

WITHIN = 300.0
"""Seconds after the last alarm of an incident in which another one belongs to it."""

FOLLOW = 5
"""Rows from the one in which a budget's incident begins in which alarms belong to it."""


class Member(NamedTuple):
    """A node of an incident: its name, when its first alarm came (seconds), that time in words, and the column."""

    node: str
    at: float
    when: str
    column: str


class Incidents:
    """Groups alarms in the order in which they come, each at most `within` seconds after the last one of its incident;
    `agree` nodes must have one before anything is told.

    Examples
    --------
    >>> some = Incidents(agree=2)
    >>> some.add("n1", 0.0, "14:02", "flow", 50), some.add("n1", 30.0, "14:02", "flow", 50)
    ('', '')
    >>> some.add("n2", 170.0, "14:05", "flow", 50)
    '2 of 50 nodes changed between 14:02 and 14:05: first n1, column flow'
    """

    def __init__(self, agree: int = 1, within: float = WITHIN):
        self.agree, self.within = agree, within
        self.by: Agreement | None = None
        self.step, self._step, self._stored = 1.0, 0.0, list[float]()
        self.members: list[Member] = []
        self.last, self.told = 0.0, False
        self._counted: tuple[int, list[str]] = -1, []  # a row, and the nodes of which an alarm was counted in it

    def add(self, node: str, at: float, when: str, column: str, nodes: int) -> str:
        """Add an alarm; returns the sentence of its incident where enough nodes agree, otherwise an empty text."""
        if self.by is not None:
            self._tell(node, at, bool(column), self.by)
        elif self.members and not abs(at - self.last) <= self.within:
            self.members = []
        self.last = at
        known = next((n for n, member in enumerate(self.members) if member.node == node), None)
        if known is None:
            self.members.append(Member(node, at, when, column))
        elif column and not self.members[known].column:  # an index was faster than the column that moved it
            self.members[known] = self.members[known]._replace(column=column)
        enough = len(self.members) >= self.agree and (self.by is None or self.told)
        return sentence_of(self.members, nodes) if enough else ""

    def follow(self, budget: Budget | None, step: float | None = None) -> None:
        """Tell the incidents that a budget promises, if it does; a row has `step` seconds, by default the budget's."""
        if self.by is None and budget is not None and budget.agree > 1:
            timed = SECONDS[budget.per] * budget.streams / budget.samples if budget.per in SECONDS else 1.0
            self.by, self.step = budget.agreement, self._step or step or timed
            if self.by is not None and self._stored:
                self.by.restore(self._stored)

    def _tell(self, node: str, at: float, counts: bool, by: Agreement) -> None:
        """Count an alarm by the budget, a node once a row; one of an index counts only for its node, since early ones
        are too many."""
        row = int(at // self.step)
        if row > self._counted[0]:
            self._counted = row, []
        if counts and node not in self._counted[1]:
            self._counted[1].append(node)
            by.add(row)
        self.told = by.begun >= 0 and row - by.begun < FOLLOW
        if not self.told:
            self.members = [member for member in self.members if at - member.at < FOLLOW * self.step]

    def stored(self) -> dict[str, object]:
        """What a restart needs."""
        found: dict[str, object] = {"members": [list(member) for member in self.members], "last": self.last}
        by, step = (self._stored, self._step) if self.by is None else (self.by.stored(), self.step)
        return found | ({"by": by, "step": step, "counted": list(self._counted)} if by else {})

    def restore(self, stored: Mapping[str, Stored]) -> None:
        """Go on from what `stored` returned."""
        self.members, self.last = [Member(*member) for member in stored["members"]], float(stored["last"])
        self._stored, self._step = [float(number) for number in stored.get("by", ())], float(stored.get("step", 0))
        row, counted = stored.get("counted", (-1, []))
        self._counted = int(row), list(counted)


def sentence_of(members: Sequence[Member], nodes: int) -> str:
    """An incident in one sentence, of so many `nodes`; its members are in the order in which they came."""
    first, last = members[0], members[-1]
    when = f"at {first.when}" if first.when == last.when else f"between {first.when} and {last.when}"
    which = f": first {first.node}, column {first.column}" if first.column else f": first {first.node}"
    return f"{len(members)} of {nodes:,} node{'' if nodes == 1 else 's'} changed {when}{which}"
