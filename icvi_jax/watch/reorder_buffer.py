"""The samples of each node in time order: old ones are skipped, times far ahead doubted, late ones waited for.

Only the times in the samples count, not the clock of the computer: the same input always gives the same output.
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Mapping

from icvi_jax.array_api import Stored
from icvi_jax.tables.clock import Clock, Verdict
from icvi_jax.terminal_text import say
from icvi_jax.watch.sample import Sample, is_local, order, seconds


class NodeOrder:
    """What is known of the times of one node, and its samples that wait."""

    __slots__ = ("clock", "far", "held")

    def __init__(self, clock: Clock):
        self.clock = clock
        self.far: Sample | None = None  # waits for a second sample that agrees with its time
        self.held: list[Sample] = []  # wait for late ones, in time order


class ReorderBuffer:
    """Puts the samples of all nodes in order.

    A sample waits until its node has sent one that is `wait` seconds later. With `keep_old`, one that is not later than
    the last one of its node counts too.
    """

    def __init__(self, wait: float = 0.0, keep_old: bool = False):
        self.wait, self.keep_old = wait, keep_old
        self.nodes: dict[str, NodeOrder] = {}
        self.old = 0  # how many samples were skipped because they were not new
        self.olds: dict[str, float] = {}  # nodes whose samples are all old, and since when, by `time.monotonic`

    def push(self, sample: Sample, again: bool = False) -> list[Sample] | None:
        """The samples that need not wait any longer now that this one has come; None: it is skipped.

        `again`: it was accepted before a restart.
        """
        when, node, keep = order(sample.time), self.nodes.get(sample.node), again or self.keep_old
        if when is None:
            # A time without an order, like "nan": if sent again, it would count twice.
            if keep or node is None or sample.time is None:
                return [sample]
            self.old += 1
            return None
        if node is None:
            node = self.nodes[sample.node] = NodeOrder(Clock())
        clock = node.clock
        when = clock.aligned(when)
        verdict = clock.judge(when, clock.last is not None and when <= clock.last and is_local(sample.time))
        if verdict is Verdict.OLD or self._waits(node, sample, when):
            if not keep:
                self.old += 1
                self.olds.setdefault(sample.node, time.monotonic())
                return None
            verdict = Verdict.NEW
        if self.olds:
            self.olds.pop(sample.node, None)
        if verdict is Verdict.FAR and not self.keep_old:
            return self._doubt(node, sample, when)
        if node.far is not None:
            self._drop_far(node)
        return self._line_up(node, sample, when, verdict)

    def _waits(self, node: NodeOrder, sample: Sample, when: float) -> bool:
        """Whether a sample of this node and time waits already."""
        if node.far is not None and self._far_time(node) == when:
            return True
        return bool(node.held) and order(sample.time) in [order(other.time) for other in node.held]

    def _doubt(self, node: NodeOrder, sample: Sample, when: float) -> list[Sample]:
        """Let a sample whose time is far ahead wait for a second one that agrees."""
        if node.far is not None:
            first, before = node.far, self._far_time(node)
            if node.clock.agrees(before, when):
                node.far = None
                ready = self._line_up(node, first, before, Verdict.NEW)
                return ready + self._line_up(node, sample, when, Verdict.NEW)
            self._drop_far(node)
        node.far = sample
        return []

    def _far_time(self, node: NodeOrder) -> float:
        return node.clock.aligned(order(node.far.time) or 0) if node.far else 0.0

    def _drop_far(self, node: NodeOrder) -> None:
        if node.far is not None:
            what = "a time far ahead, with which the next sample did not agree: skipped (is its clock wrong?)"
            say(f"node {node.far.node!r}: {what}")
            self.old, node.far = self.old + 1, None

    def _line_up(self, node: NodeOrder, sample: Sample, when: float, verdict: Verdict) -> list[Sample]:
        """Let a sample wait for late ones; without waiting, it is ready at once."""
        if not self.wait:
            node.clock.advance(when, verdict)
            return [sample]
        held = node.held
        bisect.insort(held, sample, key=lambda one: order(one.time) or 0)
        latest = seconds(held[-1].time)
        due = next((n for n, one in enumerate(held) if latest - seconds(one.time) < self.wait), len(held))
        ready, held[:due] = held[:due], []
        for one in ready:
            node.clock.advance(node.clock.aligned(order(one.time) or 0), Verdict.NEW)
        return ready

    def held(self) -> list[Sample]:
        """All samples that wait for late ones, those of each node in time order."""
        return [sample for node in self.nodes.values() for sample in node.held]

    def flush(self) -> list[Sample]:
        """The samples that wait for late ones, which wait no longer: no more will come."""
        ready = self.held()
        for node in self.nodes.values():
            node.held = []
        return ready

    def stored(self) -> dict[str, Stored]:
        return {
            "late": self.held(),
            "clocks": {name: [one.clock.last, one.clock.gap, one.clock.back] for name, one in self.nodes.items()},
            "far": [node.far for node in self.nodes.values() if node.far],
        }

    def restore(self, stored: Mapping[str, Stored]) -> set[str]:
        """Go on from what `stored` returned; the names of the nodes with samples that wait."""
        clocks = stored.get("clocks") or {name: [last, None, None] for name, last in stored.get("last", {}).items()}
        self.nodes = {name: NodeOrder(Clock(*known)) for name, known in clocks.items()}
        late, far = ([Sample(node, at, tuple(x)) for node, at, x in stored.get(key, ())] for key in ("late", "far"))
        for sample in (*late, *far):
            self.nodes.setdefault(sample.node, NodeOrder(Clock()))
        for sample in late:
            self.nodes[sample.node].held.append(sample)
        for sample in far:
            self.nodes[sample.node].far = sample
        return {sample.node for sample in (*late, *far)}
