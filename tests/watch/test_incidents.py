"""Alarms of several nodes close in time are one incident; --agree tells only those."""

import io
import json

import numpy as np
import pytest
from watching import PIPE, begun, messages

import icvi_jax as icvi
from icvi_jax.cli import main
from icvi_jax.report.incidents import Incidents, Member
from icvi_jax.watch.fencing import LogKeeper
from icvi_jax.watch.json_and_csv import Reader
from icvi_jax.watch.loop import Rules, WatchLoop
from icvi_jax.watch.other_partitions import FILE, Neighbours
from icvi_jax.watch.source import Message


def feed(nodes=6, moved=3, rows=400):
    """Lines of a fleet of which some nodes rise in row 300, and one of the others alone in row 350."""
    x = np.random.default_rng(0).normal(size=(rows, nodes))
    x[300:, :moved] += 12
    x[350:, moved] += 12
    start = np.datetime64("2024-01-01T00:00", "s")
    times = [str(start + np.timedelta64(60 * t, "s")) for t in range(rows)]
    return (
        [
            json.dumps({"node": f"n{n}", "time": times[t], "flow": x[t, n]}).encode()
            for t in range(rows)
            for n in range(nodes)
        ],
        x,
        times,
    )


def test_only_what_enough_nodes_say_is_told_and_a_restart_forgets_nothing(tmp_path):
    lines, _, _ = feed()
    alone, agreed = begun(), begun(agree=3)
    alone.take(messages(lines))
    agreed.take(messages(lines))
    every = [json.loads(line) for line in alone.out.getvalue().splitlines()]
    told = [json.loads(line) for line in agreed.out.getvalue().splitlines()]
    assert any(alarm["node"] == "n3" and alarm["sample"] > 345 for alarm in every)
    assert told and {alarm["node"] for alarm in told} <= {"n0", "n1", "n2"} and len(told) < len(every)
    assert told[0]["nodes"].startswith("3 of 6 nodes changed ") and ": first n" in told[0]["nodes"]
    folder = begun(tmp_path, agree=3)
    folder.take(messages(lines[: 6 * 302 + 1]))
    folder.save()
    folder.close()
    again = begun(tmp_path, agree=3)
    again.take(messages(lines[6 * 302 + 1 :]))
    first = folder.out.getvalue() if not folder.out.closed else ""
    found = [json.loads(line)["node"] for line in (first + again.out.getvalue()).splitlines()]
    assert sorted(found) == sorted(alarm["node"] for alarm in told)
    assert PIPE is not None


@pytest.mark.parametrize("step", [600, None])
def test_agreement_is_counted_in_rows_where_they_are_long_or_have_no_times(step):
    """Alarms of two nodes are in adjacent rows, those of two others hundreds of rows apart."""
    x = np.random.default_rng(0).normal(size=(900, 4))
    for node, row in enumerate((300, 302, 500, 800)):
        x[row:, node] += 12
    start = np.datetime64("2024-01-01T00:00", "s")
    when = [{} if step is None else {"time": str(start + np.timedelta64(step * t, "s"))} for t in range(900)]
    lines = [json.dumps({"node": f"n{n}", **when[t], "flow": x[t, n]}).encode() for t in range(900) for n in range(4)]
    watch = begun(agree=2)
    watch.take(messages(lines))
    told = [json.loads(line) for line in watch.out.getvalue().splitlines()]
    assert told and {alarm["node"] for alarm in told} <= {"n0", "n1"} and all(alarm["sample"] < 320 for alarm in told)


def test_alarms_of_neighbours_are_no_reason_to_stop(tmp_path, capsys):
    mine, other = tmp_path / "a", tmp_path / "b"
    mine.mkdir(), other.mkdir()
    (other / FILE).write_text(json.dumps([[["n1", 10.0, "10:00", ""], ["n2", 11.0, "10:01", ""]], 2]))
    own = [Member("n1", 12.0, "10:02", "")]
    found, nodes = Neighbours(mine).joined(own, 1, 300.0)
    assert [member.node for member in found] == ["n2", "n1"] and nodes == 3  # one node of two partitions counts once
    (other / FILE).write_text(json.dumps([[["n2", "soon", "10:01", ""]], 2]))
    assert Neighbours(mine).joined(own, 1, 300.0) == (own, 1)
    gone = Neighbours(tmp_path / "gone")
    assert gone.joined(own, 1, 300.0)[0] == own and "No such file" in capsys.readouterr().err


def test_a_fleet_tells_incidents(tmp_path, capsys):
    _, x, times = feed()
    path = tmp_path / "long.csv"
    rows = [f"{times[t]},n{n},{x[t, n]}" for t in range(len(x)) for n in range(6)]
    path.write_text("\n".join(["time,node,flow", *rows]))
    assert main(["fleet", str(path), "--agree", "3", "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert (
        "3 of 6 nodes changed " in said
        and "column flow" in said
        and "incidents, 3 nodes or more within minutes: 1" in said
    )


def test_nodes_of_different_partitions_agree_through_the_shared_folder(tmp_path):
    """Two workers of a Kafka group, each with some of the nodes; the third node that changes is told, by its worker."""
    lines, _, _ = feed()
    workers = []
    for part, nodes in (("readings-0", ("n0", "n3", "n5")), ("readings-1", ("n1", "n2", "n4"))):
        watch = WatchLoop(PIPE, Reader, Rules(agree=3), io.StringIO())
        watch.open(part, LogKeeper(tmp_path / part, f"group.{part}", watch.sinks))
        mine = [line for line in lines if json.loads(line)["node"] in nodes]
        workers.append((watch, part, [Message([line], offset=n) for n, line in enumerate(mine)]))
    for start in range(0, 1200, 60):  # minutes come to both at about the same time
        for watch, part, mine in workers:
            watch.turn({part: mine[start : start + 60]})
    told = [json.loads(line) for watch, _, _ in workers for line in watch.printer.out.getvalue().splitlines()]
    assert told and {alarm["node"] for alarm in told} <= {"n0", "n1", "n2"}
    assert any(alarm["nodes"].startswith("3 of 6 nodes changed ") for alarm in told)
    assert len({alarm["incident"] for alarm in told}) == 1
    for watch, _, _ in workers:
        watch.close()


def test_two_alarms_of_one_node_in_a_row_count_once():
    def evidence(*nodes):
        some = Incidents()
        some.follow(icvi.Budget.of(9e-5, streams=4), 1.0)
        for node in nodes:
            some.add(node, 7.0, "", "flow", 4)
        return some.stored()["by"]

    assert evidence("n0", "n0") == evidence("n0") != evidence("n0", "n1")


def test_evidence_is_kept_by_a_restart_that_saves_before_its_first_alarm():
    budget, some = icvi.Budget.of(9e-5, streams=4), Incidents()
    some.follow(budget, 2.0)
    some.add("n0", 7.0, "", "flow", 4)
    idle = Incidents()  # restarted, saved, and stopped, without an alarm
    idle.restore(json.loads(json.dumps(some.stored())))
    again = Incidents()
    again.restore(json.loads(json.dumps(idle.stored())))
    again.follow(budget, 60.0)  # the length of a row is that of before
    for one in (some, again):
        one.add("n0", 7.0, "", "flow", 4)
        one.add("n1", 9.0, "", "flow", 4)
    assert again.stored() == some.stored() and len(some.stored()["by"]) == 9 and some.stored()["step"] == 2.0


BUDGET = icvi.Budget.parse("1/month", streams=8, interval=60)


def test_a_budget_below_what_is_promised_tells_its_incidents_only(tmp_path):
    lines, _, _ = feed(8, 6)
    alone, together = begun(), begun(budget=BUDGET)
    alone.take(messages(lines))
    together.take(messages(lines))
    every = [json.loads(line) for line in alone.out.getvalue().splitlines()]
    told = [json.loads(line) for line in together.out.getvalue().splitlines()]
    assert 2 < BUDGET.agree < 6 and any(alarm["node"] == "n6" and alarm["sample"] > 345 for alarm in every)
    assert told and {alarm["node"] for alarm in told} <= {f"n{i}" for i in range(6)}
    assert len({alarm["incident"] for alarm in told}) == 1 and "of 8 nodes changed " in told[0]["nodes"]
    cut = 8 * 301 + 3
    for lot in (lines[:cut], lines[cut:]):
        part = begun(tmp_path, budget=BUDGET)
        part.take(messages(lot))
        part.save()
        stored = part.shard.incidents.stored()
        part.close()
    assert stored == together.shard.incidents.stored() and len(stored["by"]) == 9


def test_a_fleet_tells_the_incidents_of_its_budget(tmp_path, capsys):
    _, x, times = feed(8, 6)
    path = tmp_path / "long.csv"
    rows = [f"{times[t]},n{n},{x[t, n]}" for t in range(len(x)) for n in range(8)]
    path.write_text("\n".join(["time,node,flow", *rows]))
    assert main(["fleet", str(path), "--false-alarms", "1/month", "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "incidents, as promised: 1\n" in said and "of 8 nodes changed " in said


def test_a_topic_without_servers_is_refused(capsys):
    assert main(["watch", "--topic", "readings"]) == 2 and "--kafka HOST:PORT" in capsys.readouterr().err
