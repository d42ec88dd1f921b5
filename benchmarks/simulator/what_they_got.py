"""What a day brought each member and each kind of request, really or replayed."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean

from custom_components.fair_share.admission.model import Workload, WorkloadProfile

from .metrics import percentile
from .replay import Day, LoggedJob, Replayed


@dataclass(frozen=True, slots=True)
class Answer:
    """One request and how it was answered, all times counted from its arrival.

    ``contended`` is the charge that it was served while something else waited.
    """

    member: str
    workload: Workload
    job: LoggedJob
    charge: float
    wait_s: float
    ttft_s: float | None
    done_s: float
    contended: float | None


@dataclass(frozen=True, slots=True)
class MemberRow:
    """What one member got.

    ``share`` is their part of all charges, ``contended_share`` of those while something
    was waiting: a queue decides about nothing else. ``on_time`` is the part of their
    answers that were ready by the target for the whole answer. ``None``: not known.
    """

    requests: int
    prompt_tokens: int
    output_tokens: int
    charge: float
    share: float
    contended_share: float | None
    wait_mean_s: float
    wait_p95_s: float | None
    on_time: float

    @property
    def tokens(self) -> int:
        """Tokens of prompts and answers."""
        return self.prompt_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class WorkloadRow:
    """How one kind of request was answered; ``in_target``: first token in time."""

    requests: int
    wait_p95_s: float | None
    ttft_p50_s: float | None
    ttft_p95_s: float | None
    in_target: float | None
    on_time: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """All members and kinds of requests under one policy."""

    members: Mapping[str, MemberRow]
    workloads: Mapping[str, WorkloadRow]
    refused: int
    interruptions: int


def as_logged(day: Day) -> Outcome:
    """Return what really happened to the requests that are replayed."""
    logged = {each.request_id: each for each in day.log.requests}
    answers = []
    for job in day.jobs:
        line = logged[job.job_id]
        first_s, started_s = line.first_token_s, line.started_s or line.arrived_s
        answers.append(
            Answer(
                member=line.member,
                workload=line.workload,
                job=job,
                charge=_charge(day, job),
                wait_s=started_s - line.arrived_s,
                ttft_s=None if first_s is None else first_s - line.arrived_s,
                done_s=line.ended_s - line.arrived_s,
                contended=None,
            )
        )
    interruptions = sum(
        each.preemptions for each in day.log.requests if each.request_id in day.by_id
    )
    return _outcome(day, answers, 0, interruptions)


def as_replayed(day: Day, replayed: Replayed) -> Outcome:
    """Return what would have happened."""
    answers = []
    for served in replayed.run.served:
        job = day.by_id[served.job.job_id]
        asking = day.askings[job.client]
        answers.append(
            Answer(
                member=asking.member,
                workload=asking.workload,
                job=job,
                charge=_charge(day, job),
                wait_s=replayed.began_s[job.job_id] - job.arrival_s,
                ttft_s=served.ttft_s,
                done_s=served.end_s - job.arrival_s,
                contended=replayed.contended[job.job_id],
            )
        )
    return _outcome(day, answers, replayed.run.rejected, replayed.run.preemptions)


def _charge(day: Day, job: LoggedJob) -> float:
    costs = day.log.household.settings.costs
    uncached = job.prompt_tokens - job.cached_tokens
    return costs.charge(uncached, job.cached_tokens, job.output_tokens)


def _outcome(
    day: Day, answers: list[Answer], refused: int, interruptions: int
) -> Outcome:
    profiles = day.log.household.settings.profiles
    charged = sum(each.charge for each in answers)
    contended = sum(each.contended or 0.0 for each in answers)
    members = _grouped(answers, lambda each: each.member)
    workloads = _grouped(answers, lambda each: each.workload)
    return Outcome(
        members={
            member: _member(members[member], profiles, charged, contended)
            for member in sorted(members)
        },
        workloads={
            workload.value: _workload(workloads[workload], profiles[workload])
            for workload in Workload
            if workload in workloads
        },
        refused=refused,
        interruptions=interruptions,
    )


def _member(
    answers: list[Answer],
    profiles: Mapping[Workload, WorkloadProfile],
    charged: float,
    contended: float,
) -> MemberRow:
    charge = sum(each.charge for each in answers)
    waits = [each.wait_s for each in answers]
    part = sum(each.contended or 0.0 for each in answers)
    return MemberRow(
        requests=len(answers),
        prompt_tokens=sum(each.job.prompt_tokens for each in answers),
        output_tokens=sum(each.job.output_tokens for each in answers),
        charge=charge,
        share=charge / charged if charged else 0.0,
        contended_share=part / contended if contended else None,
        wait_mean_s=fmean(waits),
        wait_p95_s=percentile(waits, 0.95),
        on_time=_on_time(answers, profiles),
    )


def _workload(answers: list[Answer], profile: WorkloadProfile) -> WorkloadRow:
    ttft_s = [each.ttft_s for each in answers if each.ttft_s is not None]
    in_target = [each <= profile.ttft_target_s for each in ttft_s]
    return WorkloadRow(
        requests=len(answers),
        wait_p95_s=percentile([each.wait_s for each in answers], 0.95),
        ttft_p50_s=percentile(ttft_s, 0.5),
        ttft_p95_s=percentile(ttft_s, 0.95),
        in_target=fmean(in_target) if in_target else None,
        on_time=_on_time(answers, {answers[0].workload: profile}),
    )


def _on_time(
    answers: Iterable[Answer], profiles: Mapping[Workload, WorkloadProfile]
) -> float:
    return fmean(
        each.done_s <= profiles[each.workload].completion_target_s for each in answers
    )


def _grouped[Key](
    answers: Iterable[Answer], key: Callable[[Answer], Key]
) -> dict[Key, list[Answer]]:
    groups: dict[Key, list[Answer]] = {}
    for each in answers:
        groups.setdefault(key(each), []).append(each)
    return groups
