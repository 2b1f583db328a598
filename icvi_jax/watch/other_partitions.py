"""Nodes of other partitions that had alarms lately, so that `--agree` counts the nodes of all workers of a group.

Each partition has a small file in the folder that all workers share. A worker writes its own file before it reads those
of the others: of two that are at it in the same moment, at least one sees both.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from icvi_jax.report.incidents import Member
from icvi_jax.terminal_text import Complaints

FILE, MOST = "alarms-lately.json", 200


class Neighbours:
    """The alarms of one partition, whose folder is beside those of the others."""

    def __init__(self, folder: Path):
        self.folder, self._complaints = folder, Complaints()
        self._lately: dict[str, Member] = {m.node: m for m in self._read(folder / FILE)[0]}

    def joined(self, own: Sequence[Member], nodes: int, within: float) -> tuple[list[Member], int]:
        """The members of an incident here and in other partitions, and how many nodes there are in all of them."""
        for member in own[-MOST:]:
            self._lately.pop(member.node, None)
            self._lately[member.node] = member
        self._lately = dict(list(self._lately.items())[-MOST:])
        self._write(nodes)
        first, last = own[0].at - within, own[-1].at + within
        found = {member.node: member for member in own}  # a node may be in several partitions: it counts once
        for path in sorted(self.folder.parent.glob(f"*/{FILE}")):
            if path.parent != self.folder:
                members, count = self._read(path)
                found = {m.node: m for m in members if first <= m.at <= last} | found
                nodes += count
        return sorted(found.values(), key=lambda member: member.at), nodes

    def _write(self, nodes: int) -> None:
        beside = self.folder / f"{FILE}.{os.getpid()}"
        try:
            beside.write_text(json.dumps([list(self._lately.values()), nodes]), encoding="utf-8")
            beside.replace(self.folder / FILE)
        except OSError as error:
            self._complaints.say(f"{self.folder / FILE}: {error.strerror}; other partitions do not see these alarms")

    @staticmethod
    def _read(path: Path) -> tuple[list[Member], int]:
        with suppress(OSError, ValueError, TypeError):  # not there yet, or not from this version
            members, nodes = json.loads(path.read_text(encoding="utf-8"))
            return [Member(str(n), float(at), str(when), str(column)) for n, at, when, column in members], int(nodes)
        return [], 0
