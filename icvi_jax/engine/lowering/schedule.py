"""Order: a list of operations in an order in which few values are alive at once, for code whose state fills registers.

Compilers mostly keep the given order: a list that computes all products before all sums needs a register for each
product. Two orders are tried, and the one with fewer values alive at its worst place is taken; none of the values
changes.
"""

from __future__ import annotations

from collections import Counter, defaultdict

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
    """The same list in the better of the two orders, or as it is where neither is better."""
    needs = Needs(flat)
    best = min((list(needs.args), _from_below(needs), _goal_by_goal(needs)), key=lambda order: _most(needs, order))
    order = [i for i in range(len(flat.lanes)) if i not in needs.args] + best
    place = {old: new for new, old in enumerate(order)}
    lanes = [flat.lanes[i]._replace(args=tuple(place[a] for a in flat.lanes[i].args)) for i in order]
    return Flat(lanes, [place[i] for i in flat.after], [place[i] for i in flat.outputs])


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


def _from_below(needs: Needs) -> list[int]:
    """From the end back: always what adds the fewest values that must be alive before it, the latest needed first."""
    left = {i: needs.uses[i] for i in needs.args}
    ready = [i for i, n in left.items() if n == 0]
    since = dict.fromkeys(needs.kept, 0)
    alive, order = set(needs.kept), []
    while ready:
        costs = (
            (sum(a not in alive for a in needs.args[i]) - (i in alive), -since.get(i, 0), n)
            for n, i in enumerate(ready)
        )
        n = min(costs)[2]
        i, ready[n] = ready[n], ready[-1]
        ready.pop()
        order.append(i)
        alive.discard(i)
        for a in needs.args[i]:
            if a not in alive:
                alive.add(a)
                since[a] = len(order)
            if a in left:
                left[a] -= 1
                if left[a] == 0:
                    ready.append(a)
    return order[::-1]


def _goal_by_goal(needs: Needs) -> list[int]:
    """Result by result: always the one that leaves the fewest values more, each of them depth first."""
    left = {i: n + (i in needs.kept) for i, n in needs.uses.items()}
    goals = [i for i in needs.args if i in needs.kept or not needs.uses[i]]
    cones = {goal: _cone(needs, goal) for goal in goals}
    touches: dict[int, set[int]] = defaultdict(set)
    for goal, cone in cones.items():
        for i in cone:
            for a in (i, *needs.args[i]):
                touches[a].add(goal)
    order: list[int] = []
    costs: dict[int, tuple[int, int, int]] = {}
    while cones:
        for goal in cones.keys() - costs.keys():
            costs[goal] = *_cost(needs, left, cones[goal]), goal
        goal = min(costs[goal] for goal in cones)[-1]
        made = _depth_first(needs, goal, cones[goal])
        order += made
        stale = set()
        for i in made:
            stale |= touches[i]
            for a in needs.args[i]:
                left[a] -= 1
                stale |= touches[a]
        done = set(made)
        for other in stale & cones.keys():
            cones[other] -= done
            costs.pop(other, None)
        cones = {goal: cone for goal, cone in cones.items() if cone}
    return order


def _cone(needs: Needs, goal: int) -> set[int]:
    """All that a result needs."""
    cone, open_ = {goal}, [goal]
    while open_:
        more = [a for a in needs.args[open_.pop()] if a in needs.args and a not in cone]
        cone.update(more)
        open_ += more
    return cone


def _cost(needs: Needs, left: dict[int, int], cone: set[int]) -> tuple[int, int]:
    """How many values more are alive once this is done, and how much work it is."""
    used = Counter(a for i in cone for a in needs.args[i])
    ended = sum(left[a] == n for a, n in used.items() if a not in cone)
    return sum(left[i] > used[i] for i in cone) - ended, len(cone)


def _depth_first(needs: Needs, goal: int, cone: set[int]) -> list[int]:
    """The operations of a cone, the arguments that take the most registers first (Sethi and Ullman)."""
    takes: dict[int, int] = {}
    made: dict[int, None] = {}
    for visit, into in ((False, takes), (True, made)):
        stack = [goal]
        while stack:
            i = stack[-1]
            below = [a for a in needs.args[i] if a in cone]
            missing = [a for a in below if a not in into]
            if missing:
                stack += sorted(missing, key=lambda a: takes.get(a, 0))
                continue
            stack.pop()
            if visit:
                made[i] = None
            else:
                few = sorted((takes[a] for a in below), reverse=True)
                takes[i] = max([1, *(n + at for at, n in enumerate(few))])
    return list(made)
