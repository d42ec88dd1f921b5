"""What a household did before a real server is logged, read and replayed."""

import asyncio
from pathlib import Path

from homeassistant.core import HomeAssistant
from homeassistant.setup import async_setup_component
import pytest

from benchmarks.simulator.activity import read_logs
from benchmarks.simulator.machine import HOME_TIMES
from benchmarks.simulator.replay import Machine, day_of
from benchmarks.simulator.what_they_got import as_logged
from benchmarks.whatif import what_if
from custom_components.fair_share.household.runtime import Household
from demo.embedded_engine import EmbeddedEngine
from tests.common import household_entry, member, server, set_up, until
from tests.live.test_queue_live import MEMBERS, read, story

pytestmark = pytest.mark.live


@pytest.fixture(name="hass_config_dir")
def fixture_hass_config_dir(hass_tmp_config_dir: str) -> str:
    return hass_tmp_config_dir


async def test_a_day_before_a_real_server_can_be_replayed_from_its_log(
    hass: HomeAssistant, socket_enabled: None, embedded_engine: EmbeddedEngine
) -> None:
    assert await async_setup_component(hass, "homeassistant", {})
    entry = household_entry(
        server(embedded_engine.url),
        *(member(name, user_ids=(f"user_{name}",)) for name in MEMBERS),
        options={"activity_log": True},
    )
    await set_up(hass, entry)
    household: Household = entry.runtime_data
    await until(lambda: bool(list(household.servers.ready())))
    await asyncio.gather(
        *(read(household, name, story(12)) for name in MEMBERS for _ in range(2))
    )
    charged = {name: household.node_status(name).charge for name in MEMBERS}
    await hass.config_entries.async_unload(entry.entry_id)

    folder = Path(hass.config.path("fair_share"))
    files = sorted(await hass.async_add_executor_job(lambda: [*folder.glob("*")]))
    day = day_of(read_logs(files))
    assert (len(day.jobs), day.left_out, day.capacity.slots) == (6, {}, 2)
    logged = as_logged(day).members
    assert {name: row.charge for name, row in logged.items()} == pytest.approx(charged)
    # Six at once before two slots: somebody had to wait, really and in every replay.
    assert max(row.wait_mean_s for row in logged.values()) > 0
    for outcome in what_if(day, Machine(HOME_TIMES, 128)).values():
        assert outcome.members.keys() == set(MEMBERS)
        assert sum(row.requests for row in outcome.members.values()) == 6
        assert max(row.wait_mean_s for row in outcome.members.values()) > 0
