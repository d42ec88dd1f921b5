"""Households of different kinds, in which everything has to stay right."""

from dataclasses import replace

import pytest

from custom_components.fair_share.admission.model import Settings, Workload
from custom_components.fair_share.admission.policies import OFFERED

from ..world import capacity
from .budget import HISTORIES
from .disturbances import HASTY, INTERRUPTIONS
from .promises import Promises

pytestmark = pytest.mark.timeout(3600)


class PlainHousehold(Promises):
    """One server, one workload: what remains is fairness."""


class MixedHousehold(Promises):
    """All workloads on two servers, so that urgency cuts across fairness."""

    workloads = tuple(Workload)
    capacities = (capacity(slots=2), capacity("other", slots=1))


class CrampedHousehold(Promises):
    """One memory pool for all slots, too small for all of them."""

    capacities = (capacity(slots=3, pool=1200),)
    promises_turns = False


class RestlessHousehold(Promises):
    """Interruptions, changing policies, two servers and a pool planned by guesses."""

    workloads = tuple(Workload)
    capacities = (
        capacity(slots=2, pool=1500, survives=True, block=16),
        capacity("other", slots=1, context=512),
    )
    settings = Settings(preemption=HASTY, background_share=0.2)
    interruptions = INTERRUPTIONS
    policies = OFFERED
    promises_gap = promises_turns = False
    choosy = True


class InterruptedHousehold(Promises):
    """Equals interrupt each other on one server, where nothing else is in the way."""

    workloads = (Workload.VOICE,)
    capacities = (capacity(slots=2),)
    quotas = (None,)
    settings = Settings(preemption=replace(HASTY, most_among_equals=3))
    interruptions = INTERRUPTIONS[1:]
    promises_gap = False


class SpreadHousehold(Promises):
    """Three servers, on which not every slot is for work that is not urgent."""

    workloads = tuple(Workload)
    capacities = (
        replace(capacity(slots=3), learns=True),
        capacity("other", slots=2, pool=1500),
        capacity("third", slots=1),
    )
    settings = Settings(preemption=HASTY, background_share=0.05)
    interruptions = INTERRUPTIONS
    pins = (None, 1, 2)
    promises_gap = promises_turns = False


TestPlainHousehold = PlainHousehold.TestCase
TestPlainHousehold.settings = HISTORIES
TestMixedHousehold = MixedHousehold.TestCase
TestMixedHousehold.settings = HISTORIES
TestCrampedHousehold = CrampedHousehold.TestCase
TestCrampedHousehold.settings = HISTORIES
TestRestlessHousehold = RestlessHousehold.TestCase
TestRestlessHousehold.settings = HISTORIES
TestInterruptedHousehold = InterruptedHousehold.TestCase
TestInterruptedHousehold.settings = HISTORIES
TestSpreadHousehold = SpreadHousehold.TestCase
TestSpreadHousehold.settings = HISTORIES
