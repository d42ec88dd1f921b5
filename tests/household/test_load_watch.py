"""What is foreign of a load that a server reports, and how long that holds."""

import pytest

from custom_components.fair_share.admission.model import ServerCapacity
from custom_components.fair_share.engines.base import EngineLoad
from custom_components.fair_share.household.load_watch import (
    Agreed,
    Foreign,
    Ours,
    foreign_load,
)

POOL = ServerCapacity("server", slots=4, context_tokens=4000, kv_tokens=4000)
OWN = ServerCapacity("server", slots=4, context_tokens=1000)


@pytest.mark.parametrize(
    ("load", "ours", "foreign"),
    [
        pytest.param(EngineLoad(), Ours(), None, id="tells nothing"),
        pytest.param(EngineLoad(0), Ours(), Foreign(), id="idle"),
        pytest.param(EngineLoad(2), Ours(2, (50, 50)), Foreign(), id="all ours"),
        pytest.param(EngineLoad(1), Ours(2, (50, 50)), Foreign(), id="one on its way"),
        pytest.param(EngineLoad(2, 3), Ours(1, (50,)), Foreign(4, 2000), id="deferred"),
        pytest.param(EngineLoad(9), Ours(), Foreign(9, 4000), id="more than slots"),
        pytest.param(
            EngineLoad(2, kv_used_tokens=900), Ours(1, (50,)), Foreign(1, 850), id="sum"
        ),
        pytest.param(
            EngineLoad(2, kv_used_tokens=40), Ours(1, (50,)), Foreign(1), id="read yet"
        ),
        pytest.param(
            EngineLoad(3, sequences=(2000, 100, 30)),
            Ours(2, (1500, 31)),
            Foreign(1, 2000),
            id="a long prompt of ours that is still being read",
        ),
        pytest.param(
            EngineLoad(1, sequences=(2000,)),
            Ours(0, (90,)),
            Foreign(1, 2000),
            id="none",
        ),
    ],
)
def test_what_is_beyond_our_own_is_foreign(
    load: EngineLoad, ours: Ours, foreign: Foreign | None
) -> None:
    assert foreign_load(load, ours, POOL) == foreign


def test_where_every_slot_has_its_own_memory_only_slots_are_taken() -> None:
    assert foreign_load(EngineLoad(2, sequences=(9, 9)), Ours(), OWN) == Foreign(2)


def agreed(*reports: int | None) -> int | None:
    """Return what is known after these reports, two seconds apart."""
    known = Agreed()
    for number, running in enumerate(reports):
        seen = None if running is None else Foreign(running)
        known.note(seen, 2.0 * number)
    found = known.at(2.0 * len(reports))
    return None if found is None else found.running


@pytest.mark.parametrize(
    ("reports", "known"),
    [
        ((), None),
        ((1,), 0),
        ((1, 1), 1),
        ((1, 0), 0),
        ((1, 0, 1, 0, 1), 0),
        ((3, 2), 2),
        ((2, 2, 0), 2),
        ((2, 2, 0, 0), 0),
        ((2, 2, 0, 1), 1),
        ((2, 2, 0, 3, 2), 2),
        ((None,), None),
        ((1, 1, None), None),
        ((1, 1, None, 1), 0),
    ],
)
def test_only_what_two_reports_in_a_row_agree_on_is_believed(
    reports: tuple[int | None, ...], known: int | None
) -> None:
    assert agreed(*reports) == known


def test_what_was_known_holds_for_half_a_minute_and_then_for_nothing() -> None:
    known = Agreed()
    for now in (0.0, 2.0):
        known.note(Foreign(1, 500), now)
    assert known.at(32.0) == Foreign(1, 500)
    assert known.at(32.1) is None
    known.note(Foreign(1), 40.0)
    assert known.at(40.0) == Foreign()


def test_what_is_being_found_out_or_lasts_is_looked_at_often() -> None:
    known = Agreed()
    assert not known.unsettled
    known.note(Foreign(1), 0.0)
    assert known.unsettled
    known.note(Foreign(1), 2.0)
    known.note(Foreign(0), 4.0)
    assert known.unsettled
    known.note(Foreign(0), 6.0)
    assert not known.unsettled
