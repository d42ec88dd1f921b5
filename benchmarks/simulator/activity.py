"""Reading activity logs, as docs/activity-log.md describes them.

This reader knows the description, not the code that writes the logs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
import json
from math import isfinite
from pathlib import Path
from typing import Any

from custom_components.fair_share.admission.model import (
    ROOT_ID,
    Caps,
    CostWeights,
    Limits,
    NodeSpec,
    PreemptionRules,
    ServerCapacity,
    Settings,
    Workload,
    WorkloadProfile,
)

FORMAT = 1


class LogError(Exception):
    """A log can't be used; says where, and what is wrong there."""


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """One line of a request. Times are UTC seconds.

    ``started_s`` and ``first_token_s`` are ``None`` where there was neither. The
    prompt and output are those that the server worked on.
    """

    request_id: str
    member: str
    source: str
    workload: Workload
    outcome: str
    continues_turn: bool
    arrived_s: float
    started_s: float | None
    first_token_s: float | None
    ended_s: float
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    max_output_tokens: int
    preemptions: int


@dataclass(frozen=True, slots=True)
class LoggedHousehold:
    """How a household was set up."""

    settings: Settings
    nodes: Mapping[str, NodeSpec]
    servers: tuple[ServerCapacity, ...]


@dataclass(frozen=True, slots=True)
class ActivityLog:
    """All requests in order of arrival, and the household as it was set up last.

    ``torn_lines`` were left unfinished by a process that was killed.
    """

    household: LoggedHousehold
    requests: tuple[LoggedRequest, ...]
    torn_lines: int


def read_logs(paths: Iterable[Path]) -> ActivityLog:
    """Read the files of a log, in any order; a request in several of them counts once.

    Raises ``LogError``.
    """
    files: list[tuple[float, list[LoggedHousehold]]] = []
    requests: dict[str, LoggedRequest] = {}
    torn = 0
    for path in paths:
        latest_s = 0.0
        here: list[LoggedHousehold] = []
        for line in _lines(path):
            if line is None:
                torn += 1
                continue
            match line.text("type"):
                case "household":
                    here.append(_household(line))
                case "request":
                    request = _request(line)
                    requests[request.request_id] = request
                    latest_s = max(latest_s, request.ended_s)
        files.append((latest_s, here))
    files.sort(key=lambda file: file[0])
    households = [household for _, here in files for household in here]
    if not households:
        raise LogError(
            "there is no line of type household, which every log begins with"
        )
    return ActivityLog(
        _latest(households),
        tuple(sorted(requests.values(), key=lambda each: each.arrived_s)),
        torn,
    )


def _latest(households: Sequence[LoggedHousehold]) -> LoggedHousehold:
    """Return the last one, with members and servers also of before if they are gone."""
    nodes: dict[str, NodeSpec] = {}
    servers: tuple[ServerCapacity, ...] = ()
    for household in households:
        nodes |= household.nodes
        servers = household.servers or servers
    return LoggedHousehold(households[-1].settings, nodes, servers)


class _Line:
    """A line, or an object inside of one, whose values are checked as they are read."""

    def __init__(self, where: str, values: Mapping[str, Any]) -> None:
        self.where = where
        self.values = values

    def fail(self, what: str) -> LogError:
        return LogError(f"{self.where}: {what}")

    def _value(self, key: str) -> Any:  # noqa: ANN401 - whatever JSON holds
        if key not in self.values:
            raise self.fail(f"{key} is missing")
        return self.values[key]

    def text(self, key: str) -> str:
        value = self._value(key)
        if not isinstance(value, str) or not value:
            raise self.fail(f"{key} is not a text")
        return value

    def number(self, key: str) -> float:
        value = self._value(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fail(f"{key} is not a number")
        if not isfinite(value) or value < 0:
            raise self.fail(f"{key} is not a number of 0 or more")
        return value

    def count(self, key: str) -> int:
        value = self.number(key)
        if value != int(value):
            raise self.fail(f"{key} is not a whole number")
        return int(value)

    def flag(self, key: str) -> bool:
        value = self._value(key)
        if not isinstance(value, bool):
            raise self.fail(f"{key} is neither true nor false")
        return value

    def moment(self, key: str) -> float | None:
        return self.number(key) if self.has(key) else None

    def part(self, key: str) -> _Line:
        return self._inside(key, self._value(key))

    def parts(self, key: str) -> list[_Line]:
        value = self._value(key)
        if not isinstance(value, list):
            raise self.fail(f"{key} is not a list")
        return [self._inside(key, each) for each in value]

    def has(self, key: str) -> bool:
        return self.values.get(key) is not None

    def _inside(self, key: str, value: object) -> _Line:
        if not isinstance(value, Mapping):
            raise self.fail(f"{key} is not an object")
        return _Line(f"{self.where}: {key}", value)


def _lines(path: Path) -> Iterator[_Line | None]:
    """Return the lines of a file, ``None`` for a torn last one."""
    try:
        data = path.read_bytes()
    except OSError as err:
        raise LogError(f"{path}: {err.strerror or err}") from None
    texts = data.split(b"\n")
    for number, text in enumerate(texts, 1):
        if not text.strip():
            continue
        where = f"{path}, line {number}"
        try:
            values = json.loads(text)
        except ValueError:
            if number == len(texts):
                yield None
                return
            raise LogError(f"{where}: not JSON") from None
        if not isinstance(values, Mapping):
            raise LogError(f"{where}: not a JSON object")
        yield _Line(where, values)


def _household(line: _Line) -> LoggedHousehold:
    if line.count("format") > FORMAT:
        raise line.fail("written by a later version of Fair Share")
    workloads = line.part("workloads")
    preemption = None
    if line.has("preemption"):
        part = line.part("preemption")
        preemption = PreemptionRules(**_fields(PreemptionRules, part))
    settings = Settings(
        policy=line.text("policy"),
        costs=CostWeights(**_fields(CostWeights, line.part("costs"))),
        limits=Limits(**_fields(Limits, line.part("limits"))),
        profiles={
            workload: WorkloadProfile(
                **_fields(WorkloadProfile, workloads.part(workload.value))
            )
            for workload in Workload
        },
        background_share=line.number("background_share"),
        background_debt=line.number("background_debt"),
        bypass=line.number("bypass"),
        preemption=preemption,
    )
    if settings.background_share >= 1:
        raise line.fail("background_share is not below 1")
    nodes = [_node(part) for part in line.parts("members")]
    return LoggedHousehold(
        settings,
        {node.node_id: node for node in nodes},
        tuple(_server(part) for part in line.parts("servers")),
    )


def _fields(kind: type[Any], part: _Line) -> dict[str, Any]:
    """Return the values of a dataclass that are there; a later version has more."""
    values: dict[str, Any] = {}
    for field in fields(kind):
        if part.has(field.name):
            whole = field.type is int
            read = part.count if whole else part.number
            values[field.name] = (part.flag if field.type is bool else read)(field.name)
    return values


def _node(part: _Line) -> NodeSpec:
    caps = part.part("caps")
    weight = part.number("weight")
    if not weight:
        raise part.fail("weight is 0")
    limits = {
        each.name: caps.count(each.name) for each in fields(Caps) if caps.has(each.name)
    }
    return NodeSpec(
        part.text("id"),
        part.text("parent") if part.has("parent") else ROOT_ID,
        weight,
        caps=Caps(**limits),
    )


def _server(part: _Line) -> ServerCapacity:
    slots, context_tokens = part.count("slots"), part.count("context_tokens")
    if not slots or not context_tokens:
        raise part.fail("a server without room")
    return ServerCapacity(
        part.text("server_id"),
        slots,
        context_tokens,
        part.count("kv_tokens") if part.has("kv_tokens") else None,
        max(part.count("block_tokens"), 1),
        part.flag("survives_exhaustion"),
    )


def _request(line: _Line) -> LoggedRequest:
    workload = line.text("workload")
    if workload not in {*Workload}:
        raise line.fail(f"unknown workload: {workload}")
    served = line.has("started")
    cached = line.count("cached_tokens") if served else 0
    return LoggedRequest(
        request_id=line.text("id"),
        member=line.text("member"),
        source=line.text("source"),
        workload=Workload(workload),
        outcome=line.text("outcome"),
        continues_turn=line.flag("continues_turn"),
        arrived_s=line.number("arrived"),
        started_s=line.moment("started"),
        first_token_s=line.moment("first_token"),
        ended_s=line.number("ended"),
        prompt_tokens=line.count("uncached_tokens") + cached if served else 0,
        cached_tokens=cached,
        output_tokens=line.count("output_tokens") if served else 0,
        max_output_tokens=line.count("max_output_tokens"),
        preemptions=line.count("preemptions") if served else 0,
    )
