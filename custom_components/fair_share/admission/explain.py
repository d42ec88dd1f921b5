"""Why a request waits."""

from collections.abc import Collection, Iterable

from .entry import Entry
from .model import Rule
from .refusal import waits_for_refill
from .servers import Server


def waiting_rule(entry: Entry, servers: Iterable[Server], now: float) -> Rule:
    """Return the rule because of which a waiting request has not started yet."""
    hosts = [
        server
        for server in servers
        if server.usable and server.holds(entry.request, entry.counted.output)
    ]
    if not hosts:
        return Rule.NO_SERVER
    if waits_for_refill(entry.leaf, resumed=entry.resumed) is not None:
        return Rule.QUOTA
    if any(node.at_capacity() for node in entry.leaf.path):
        return Rule.IN_FLIGHT_CAP
    if entry.leaf.head is not entry:
        return Rule.BEHIND_OTHERS
    if any(_frozen_for_another(server, entry) for server in hosts):
        return Rule.BEHIND_BLOCKED
    patient = entry.is_patient(now)
    return _least_obstacle(
        [server.obstacle(entry, patient=patient) for server in hosts]
    )


def _frozen_for_another(server: Server, entry: Entry) -> bool:
    blocked = server.blocked
    return (
        blocked is not None and blocked.entry is not entry and server.free_slots() > 0
    )


def _least_obstacle(obstacles: Collection[Rule | None]) -> Rule:
    """Name what stands in the way on the server that is closest to taking it."""
    if None in obstacles:
        return Rule.BEHIND_OTHERS
    order = (Rule.NO_KV, Rule.NOT_PAYING, Rule.NO_SLOT)
    return next(rule for rule in order if rule in obstacles)
