"""How urgent a request is when it is let in, which some servers are told."""

import pytest

from custom_components.fair_share.admission.model import (
    QuotaEnd,
    QuotaSpec,
    TokenCount,
    Workload,
)

from .world import World, capacity

BANDS = {
    Workload.VOICE: 0,
    Workload.CHAT: 1,
    Workload.TASK: 2,
    Workload.BACKGROUND: 3,
}


@pytest.fixture
def world() -> World:
    """Two members and a server that does one thing at a time."""
    world = World()
    world.server(capacity(slots=1))
    world.member("parent", *BANDS)
    world.member("child", *BANDS)
    return world


def band_of(world: World, request_id: str) -> int:
    """Return the band of a request's last start."""
    return [d.band for d in world.dispatched if d.request_id == request_id][-1]


@pytest.mark.parametrize("workload", BANDS)
def test_what_need_not_wait_goes_out_with_the_band_of_its_workload(
    world: World, workload: Workload
) -> None:
    request_id = world.ask(f"parent/direct/{workload}")
    assert band_of(world, request_id) == BANDS[workload]


@pytest.mark.parametrize(("waited_s", "band"), [(299, 3), (301, 2), (601, 1), (901, 0)])
def test_who_was_passed_over_goes_out_more_urgent(
    world: World, waited_s: float, band: int
) -> None:
    running = world.ask("parent/direct/chat")
    waiting = world.ask("child/direct/background")
    world.pass_time(waited_s)
    world.end(running)
    assert band_of(world, waiting) == band


def test_what_a_used_up_quota_demotes_goes_out_as_background() -> None:
    world = World()
    world.server(capacity(slots=1))
    quota = QuotaSpec(100, at_end=QuotaEnd.DEMOTE)
    world.member("child", Workload.VOICE, quota=quota)
    first = world.ask("child/direct/voice")
    world.end(first, tokens=TokenCount(uncached=10, output=200))
    second = world.ask("child/direct/voice")
    assert (band_of(world, first), band_of(world, second)) == (0, 3)
