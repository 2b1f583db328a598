"""Order: a list of operations in an order in which few values are alive at once, for code whose state fills registers.

Compilers mostly keep the given order: a list that computes all products before all sums needs a register for each
product. None of the values changes.
"""

from __future__ import annotations

from collections import defaultdict

from icvi_jax.engine.lowering.ssa import Flat


class Needs:
    """What each operation on lanes needs, and which ones need it; numbers that all streams share are not counted."""

    def __init__(self, flat: Flat) -> None:
        lanes = flat.lanes
        vary = [i for i, lane in enumerate(lanes) if not lane.uniform]
        self.inputs = [i for i in vary if lanes[i].name == "input"]
        self.args = {
            i: [a for a in dict.fromkeys(lanes[i].args) if not lanes[a].uniform]
            for i in vary
            if lanes[i].name != "input"
        }
        self.kept = set(flat.after)
        self.uses: dict[int, int] = dict.fromkeys(vary, 0)
        for needed in self.args.values():
            for a in needed:
                self.uses[a] += 1


def most_alive(flat: Flat) -> int:
    """How many values are alive at once, at most, if the list is done as it is; outputs leave as they are made."""
    return _most(Needs(flat), None)


def ordered(flat: Flat) -> Flat:
    """The same list with fewer values alive at once, or as it is where that cannot be done."""
    needs = Needs(flat)
    best = min((list(needs.args), _Pursuit(needs, flat).order), key=lambda order: _most(needs, order))
    order = [i for i in range(len(flat.lanes)) if i not in needs.args] + best
    place = {old: new for new, old in enumerate(order)}
    lanes = [flat.lanes[i]._replace(args=tuple(place[a] for a in flat.lanes[i].args)) for i in order]
    return Flat(lanes, [place[i] for i in flat.after], [place[i] for i in flat.outputs], ordered=True)


def _most(needs: Needs, order: list[int] | None) -> int:
    left = {i: n + (i in needs.kept) for i, n in needs.uses.items()}
    alive = most = sum(left[i] > 0 for i in needs.inputs)
    for i in needs.args if order is None else order:
        for a in needs.args[i]:
            left[a] -= 1
            alive -= left[a] == 0
        most = max(most, alive + 1)
        alive += left[i] > 0
    return most


FEW, NEAR = 6, 8
"""A value that at most FEW operations need is used up as soon as it is there, if the NEAR operations before them do."""


class _Pursuit:
    """Result by result, depth first; and what is made on the way is used up at once where that takes no more room.

    So each of the terms that go into a maximum is made, compared and forgotten before the next one.
    """

    def __init__(self, needs: Needs, flat: Flat) -> None:
        self.args = needs.args
        self.uses = {i: n + (i in needs.kept) for i, n in needs.uses.items()}
        self.left = dict(self.uses)
        self.users: dict[int, list[int]] = defaultdict(list)
        for i, needed in self.args.items():
            for a in needed:
                self.users[a].append(i)
        self.done = set(needs.inputs)
        self.order: list[int] = []
        for goal in (*flat.after, *flat.outputs):
            if goal in self.uses:
                self.reach(goal)

    def reach(self, goal: int) -> None:
        """Make a result and all that it needs."""
        stack = [goal]
        while stack:
            i = stack[-1]
            missing = next((a for a in self.args.get(i, ()) if a not in self.done), None)
            if i in self.done:
                stack.pop()
            elif missing is not None:
                stack.append(missing)
            else:
                self.pursue(stack.pop())

    def pursue(self, start: int) -> None:
        """Make a value whose arguments are there, and what it is good for at once."""
        stack = [start]
        while stack:
            i = stack.pop()
            made = self.below(i) if i not in self.done else []
            after: list[int] = []
            for j in made:
                self.done.add(j)
                self.order.append(j)
                for a in self.args[j]:
                    self.left[a] -= 1
            for j in made:
                after += [user for user in self.users[j] if user not in self.done and self.worth(j, user)]
                last = (user for a in self.args[j] if self.left[a] == 1 for user in self.users[a])
                after += [user for user in last if user not in self.done and not self.missing(user)]
            stack += after[::-1]

    def missing(self, i: int) -> list[int]:
        return [a for a in self.args[i] if a not in self.done]

    def worth(self, i: int, user: int) -> bool:
        """Whether `user` should follow `i`: it is the last to need something, or soon leads to it."""
        if self.missing(user):
            return self.uses[i] == 1
        ends = any(self.left[a] == 1 for a in self.args[user])
        return ends or (self.uses[i] <= FEW and self.uses[user] <= 2)

    def below(self, i: int) -> list[int]:
        """The operation and those missing before it, in order; none at all where they are many."""
        found: dict[int, None] = {}
        stack = [i]
        while stack:
            missing = next((a for a in self.missing(stack[-1]) if a not in found), None)
            if missing is None:
                found[stack.pop()] = None
            elif len(stack) + len(found) == NEAR:
                return []
            else:
                stack.append(missing)
        return list(found)
