"""The load of a household."""

from itertools import pairwise

from benchmarks.simulator.job import Job
from benchmarks.simulator.scenario import HOUSEHOLD, Client, Flow, Scenario
from custom_components.fair_share.admission.model import Workload

PARENT, CHILD = Client("parent", Workload.CHAT), Client("child", Workload.VOICE)


def arrivals_s(jobs: tuple[Job, ...], client: int) -> list[float]:
    return [job.arrival_s for job in jobs if job.client == client]


def test_a_flow_comes_regularly_from_anywhere_in_its_first_interval() -> None:
    scenario = Scenario(100.0, [Flow(PARENT, 10.0, (5, 5), (7, 7))])
    jobs = scenario.jobs(seed=1)
    first, *rest = arrivals_s(jobs, 0)
    assert 0 <= first < 10
    assert rest == [first + 10.0 * number for number in range(1, 10)]
    assert {(job.prompt_tokens, job.output_tokens) for job in jobs} == {(5, 7)}


def test_intervals_and_lengths_spread_as_far_as_they_are_said_to() -> None:
    scenario = Scenario(5000.0, [Flow(PARENT, 10.0, (5, 9), (1, 3), spread=0.5)])
    jobs = scenario.jobs(seed=1)
    times = arrivals_s(jobs, 0)
    gaps = [after - before for before, after in pairwise(times)]
    assert 5.0 <= min(gaps) < 5.5
    assert 14.5 < max(gaps) <= 15.0
    assert {job.prompt_tokens for job in jobs} == {5, 6, 7, 8, 9}
    assert {job.output_tokens for job in jobs} == {1, 2, 3}


def test_a_flow_may_begin_late_and_end_early() -> None:
    flow = Flow(PARENT, 1.0, (5, 5), (7, 7), start_s=20.0, end_s=30.0)
    times = arrivals_s(Scenario(100.0, [flow]).jobs(seed=1), 0)
    assert len(times) == 10
    assert all(20 <= time < 30 for time in times)


def test_a_flow_more_leaves_the_others_as_they_were() -> None:
    flows = [Flow(PARENT, 10.0, (5, 50), (7, 70), spread=0.5)]
    alone = Scenario(500.0, flows).jobs(seed=3)
    both = Scenario(500.0, [*flows, Flow(CHILD, 7.0, (5, 5), (7, 7))]).jobs(seed=3)
    assert tuple(job for job in both if job.client == 0) == alone


def test_a_seed_always_gives_the_same_and_another_something_else() -> None:
    assert HOUSEHOLD.jobs(0) == HOUSEHOLD.jobs(0)
    assert HOUSEHOLD.jobs(0) != HOUSEHOLD.jobs(1)


def test_the_household_asks_for_more_than_its_server_can_do() -> None:
    jobs = HOUSEHOLD.jobs(0)
    counts = {
        workload: sum(
            HOUSEHOLD.clients[job.client].workload is workload for job in jobs
        )
        for workload in (Workload.VOICE, Workload.CHAT, Workload.BACKGROUND)
    }
    assert counts[Workload.BACKGROUND] in {112, 113, 114}
    assert 25 <= counts[Workload.VOICE] <= 35
    assert 11 <= counts[Workload.CHAT] <= 19
    assert {client.member for client in HOUSEHOLD.clients.values()} == {
        "parent",
        "child",
        "teen",
    }
