"""Make the example of an activity log: a made-up evening of a made-up household.

    python -m benchmarks.example_log > benchmarks/examples/evening.jsonl

Arrivals are drawn, and the queue serves them in the simulator under equal tokens; the
lines are written by the integration's own code.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
import json

from custom_components.fair_share.admission.model import (
    ROOT_ID,
    Ending,
    NodeSpec,
    PreemptionRules,
    Request,
    ServerCapacity,
    Settings,
    Workload,
)
from custom_components.fair_share.household.activity_lines import (
    household_line,
    request_line,
)

from .simulator.activity import ActivityLog, LoggedHousehold, LoggedRequest
from .simulator.machine import HOME_TIMES
from .simulator.replay import Machine, ReplayFront, day_of
from .simulator.run import run
from .simulator.scenario import Client, Flow, Scenario

_BEGIN_S = datetime(2026, 11, 30, 17, 0, tzinfo=UTC).timestamp()
_SEED = 2
_BATCH_TOKENS = 512
_MAX_OUTPUT_TOKENS = 1024
_VOICE, _CHAT, _LONG = (180, 220), (400, 900), (1500, 3000)
_CACHED = {Workload.VOICE: 0.7, Workload.CHAT: 0.5, Workload.BACKGROUND: 0.0}
"""Which part of a prompt is the same as last time: the instructions, what was said."""

EVENING = Scenario(
    duration_s=900.0,
    flows=(
        Flow(Client("parent", Workload.VOICE), 60, _VOICE, (15, 50), spread=0.8),
        Flow(Client("child", Workload.VOICE), 45, _VOICE, (15, 50), spread=0.8),
        Flow(Client("teen", Workload.CHAT), 9, _CHAT, (200, 600), 0.6, 60, 600),
        Flow(Client("parent", Workload.CHAT), 30, _CHAT, (80, 300), spread=0.6),
        Flow(Client("guest", Workload.CHAT), 45, _CHAT, (50, 200), spread=0.5),
        Flow(
            Client("shared", Workload.BACKGROUND), 25, _LONG, (200, 600), 0.2, 200, 700
        ),
    ),
)
"""A quarter of an hour in which a teenager's tool and a camera's pictures meet."""

_MEMBERS = ("guest", "shared", "parent", "child", "teen")
HOUSEHOLD = LoggedHousehold(
    Settings(preemption=PreemptionRules()),
    {member: NodeSpec(member) for member in _MEMBERS},
    (ServerCapacity("server", slots=2, context_tokens=8192),),
)


def lines() -> Iterator[str]:
    """Return the lines of the log."""
    day = day_of(ActivityLog(HOUSEHOLD, tuple(_requests()), torn_lines=0))
    front = ReplayFront(day, HOUSEHOLD.settings.policy)
    run(day.jobs, Machine(HOME_TIMES, _BATCH_TOKENS).engine(day), front)
    yield _text(
        household_line(HOUSEHOLD.settings, HOUSEHOLD.nodes.values(), HOUSEHOLD.servers)
    )
    for record in front.records:
        job = day.by_id[record.request_id]
        asking = day.askings[job.client]
        class_id = f"{asking.source}/{asking.workload}"
        request = Request(
            job.job_id, class_id, job.prompt_tokens, job.max_output_tokens
        )
        path = (ROOT_ID, asking.member, asking.source, class_id)
        ending = Ending(request, path, record.duration_s, record)
        start_s = day.log.requests[0].arrived_s
        yield _text(
            request_line(ending, start_s + job.arrival_s + record.duration_s, "example")
        )


def _requests() -> Iterator[LoggedRequest]:
    for job in EVENING.jobs(_SEED):
        client = EVENING.clients[job.client]
        arrived_s = _BEGIN_S + job.arrival_s
        yield LoggedRequest(
            request_id=job.job_id,
            member=client.member,
            source=f"{client.member}/direct",
            workload=client.workload,
            outcome="finished",
            continues_turn=False,
            arrived_s=arrived_s,
            started_s=arrived_s,
            first_token_s=arrived_s,
            ended_s=arrived_s,
            prompt_tokens=job.prompt_tokens,
            cached_tokens=int(_CACHED[client.workload] * job.prompt_tokens),
            output_tokens=job.output_tokens,
            max_output_tokens=_MAX_OUTPUT_TOKENS,
            preemptions=0,
        )


def _text(line: object) -> str:
    return json.dumps(line, separators=(",", ":"))


if __name__ == "__main__":
    for each in lines():
        print(each)
