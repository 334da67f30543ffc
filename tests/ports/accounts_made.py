"""The numbers of endpoints and processes, held against those of nodes and against the log."""

from collections import Counter

import msgspec

COPIED = ("messages_out", "messages_in", "bytes_out", "bytes_in", "requests", "lookups", "misses")


def numbers(plain, place=()):
    """Every number of a report's part, by the way to it."""
    found = Counter()
    for name, value in plain.items():
        if isinstance(value, dict):
            found += numbers(value, (*place, name))
        elif isinstance(value, int):
            found[*place, name] = value
    return found


def added(several, names):
    found = Counter()
    for one in several:
        plain = msgspec.to_builtins(one)
        found += numbers({name: plain[name] for name in names if plain[name] is not None})
    return found


def check(report, machine=None):
    """Hold the accounts of ``report``; with its ``machine``, each packet sent has one as well."""
    for node in report.nodes:
        assert (node.checks is None) == (node.check_misses is None)
        assert node.checks is None or 0 <= node.check_misses <= node.checks
        own = [one for one in report.endpoints if one.node == node.node]
        of_processes = [one for one in own if one.process is not None]
        processes = [one for one in report.processes if one.node == node.node]
        assert added(own, COPIED) == added([node], COPIED)
        assert added(processes, (*COPIED, "sent")) == added(of_processes, (*COPIED, "sent"))
        assert [one.process for one in processes] == list(range(node.programs))
        sent = added(own, ["sent"])
        for name in ("total", "first", "again", "acknowledgements", "copies"):
            assert sent["sent", name] == (getattr(node.sent, name) or 0)
        came = added(own, ["received"])
        looked = numbers({"received": msgspec.to_builtins(node.received)})
        for place, count in looked.items():
            if place[1:] not in (("total",), ("unfinished",)):
                assert came[place] == count
    _check_outcomes(report)
    if machine is not None:
        _check_log(report, machine)


def _check_outcomes(report):
    """What was sent is what came and how it ended, and what was on the way when all was over."""
    ended = added(report.endpoints, ["outcome"])
    came = numbers({"outcome": msgspec.to_builtins(report.total.received)})
    for place in came.keys() | ended.keys():
        if place[1:] not in (("total",), ("unfinished",)):
            assert ended[place] == came[place]
    sent = report.total.sent
    waiting = (sent.waiting or 0) + (sent.unheard or 0)
    assert ended["outcome", "unfinished"] == report.total.received.unfinished + waiting
    assert ended["outcome", "total"] == sent.total
    for one in report.endpoints:
        for found in (one.outcome, one.received):
            plain = msgspec.to_builtins(found)
            total = plain.pop("total")
            assert total == sum(numbers(plain).values())
        for path in ("send", "receive", "handles", "total"):
            looked, missed = getattr(one.lookups, path), getattr(one.misses, path)
            assert (looked is None) == (missed is None)
            assert looked is None or 0 <= missed <= looked


def _check_log(report, machine):
    """The endpoints' packets are those in the log, by who made them and how each ended."""
    ports = machine.ports
    records = ports.happenings[: ports.happened[0]]
    for node in range(len(machine.nodes)):
        made = int(((records["came"] == 0) & (records["node"] == node)).sum())
        lost = int(
            ((records["came"] == 1) & (records["sender"] == node) & (records["what"] == 2)).sum()
        )
        own = [one for one in report.endpoints if one.node == node]
        assert sum(one.sent.total for one in own) == made
        assert sum(one.outcome.lost for one in own) == lost
