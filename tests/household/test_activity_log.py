"""The activity log of a running household, in real files."""
# ruff: noqa: ASYNC240 - files of a few bytes in a temporary folder

import asyncio
from contextlib import suppress
import json
import logging
from pathlib import Path
from typing import Any

from homeassistant.const import (
    EVENT_HOMEASSISTANT_CLOSE,
    EVENT_HOMEASSISTANT_FINAL_WRITE,
)
from homeassistant.core import HomeAssistant
from homeassistant.setup import async_setup_component
import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from custom_components.fair_share.admission.model import (
    Ending,
    Outcome,
    Rejected,
    Request,
    RequestRecord,
    TokenCount,
    Workload,
)
from custom_components.fair_share.engines.base import EngineError, GenerationRequest
from custom_components.fair_share.household import activity_log
from custom_components.fair_share.household.activity_lines import request_line
from custom_components.fair_share.household.asker import Asker, IdentityRule
from custom_components.fair_share.household.generation import Ask
from custom_components.fair_share.household.registry import automation_id
from custom_components.fair_share.household.runtime import Household
from tests.common import household_entry, member, server, set_up, until
from tests.fake_server import FakeServer, answer, failure
from tests.household.conftest import Asking, Pass, say

FINISHED = "finished"


@pytest.fixture(name="hass_config_dir")
def fixture_hass_config_dir(hass_tmp_config_dir: str) -> str:
    return hass_tmp_config_dir


@pytest.fixture(autouse=True)
async def _home(hass: HomeAssistant) -> None:
    """Load what every Home Assistant has loaded."""
    assert await async_setup_component(hass, "homeassistant", {})


@pytest.fixture(name="folder")
def fixture_folder(hass: HomeAssistant) -> Path:
    return Path(hass.config.path("fair_share"))


@pytest.fixture(name="entry")
async def fixture_entry(hass: HomeAssistant, fake: FakeServer) -> MockConfigEntry:
    """A household of Parent and Child that keeps a log."""
    return await running(hass, fake, activity_log=True)


@pytest.fixture(name="household")
def fixture_household(entry: MockConfigEntry) -> Household:
    household: Household = entry.runtime_data
    return household


async def running(
    hass: HomeAssistant, fake: FakeServer, **options: Any
) -> MockConfigEntry:
    entry = household_entry(
        server(fake.url, slots=1, api_key="sk-planted"),
        member("parent", user_ids=("user_parent",), weight=2.5),
        member("child", user_ids=("user_child",)),
        options=options,
    )
    await set_up(hass, entry)
    return entry


async def lines(household: Household, folder: Path) -> list[dict[str, Any]]:
    """Return what the log says by now."""
    await household.activity.async_flush()
    return written(folder)


def written(folder: Path) -> list[dict[str, Any]]:
    texts = [path.read_text() for path in sorted(folder.glob("*"))]
    return [json.loads(line) for line in "".join(texts).splitlines()]


def requests(said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in said if line["type"] == "request"]


async def set_options(
    hass: HomeAssistant, entry: MockConfigEntry, **options: Any
) -> None:
    hass.config_entries.async_update_entry(entry, options=options)
    await hass.async_block_till_done()


async def test_nothing_is_written_unless_the_household_wants_it(
    hass: HomeAssistant, fake: FakeServer, folder: Path, passes: Pass
) -> None:
    entry = await running(hass, fake)
    await say(entry.runtime_data)
    await passes(60)
    await hass.config_entries.async_unload(entry.entry_id)
    assert not folder.exists()


async def test_an_answer_is_one_line_of_times_and_counts(
    household: Household, folder: Path, fake: FakeServer
) -> None:
    fake.script(answer("one", " two", " three", cached=4))
    await say(household, "How deep is the sea where the lighthouse stands?")
    _, line = await lines(household, folder)
    (record,) = household.records()
    assert line["id"] == record.request_id
    assert (line["member"], line["source"]) == ("parent", "parent/direct")
    assert (line["workload"], line["continues_turn"]) == ("chat", False)
    assert (line["outcome"], line["reason"], line["server"]) == (
        FINISHED,
        None,
        "server",
    )
    assert (line["output_tokens"], line["max_output_tokens"]) == (3, 64)
    assert line["cached_tokens"] == 4
    assert line["uncached_tokens"] == record.tokens.uncached
    assert line["charge"] == pytest.approx(record.charge, abs=0.05)
    assert line["arrived"] <= line["started"] <= line["first_token"] <= line["ended"]
    took_s = line["ended"] - line["arrived"]
    assert took_s == pytest.approx(record.duration_s, abs=0.02)


async def test_the_first_line_says_how_the_household_is_set_up(
    household: Household, folder: Path
) -> None:
    await say(household)
    head, _ = await lines(household, folder)
    assert (head["type"], head["format"]) == ("household", 1)
    assert head["policy"] == "equal_tokens"
    assert head["costs"] == {
        "uncached_prompt": 1.0,
        "cached_prompt": 0.1,
        "output": 2.0,
    }
    assert head["workloads"]["voice"]["band"] == 0
    weights = {node["id"]: node["weight"] for node in head["members"]}
    assert (weights["parent"], weights["child"]) == (2.5, 1.0)
    (capacity,) = head["servers"]
    assert (capacity["server_id"], capacity["slots"]) == ("server", 1)
    assert capacity["context_tokens"] == 4096


async def test_a_changed_policy_is_told_before_the_requests_that_follow(
    hass: HomeAssistant, entry: MockConfigEntry, household: Household, folder: Path
) -> None:
    await say(household)
    await lines(household, folder)
    await set_options(hass, entry, activity_log=True, policy="latency_first")
    await say(household)
    said = await lines(household, folder)
    assert [line["type"] for line in said] == ["household", "request"] * 2
    assert said[2]["policy"] == "latency_first"


async def test_refused_cancelled_and_failed_requests_are_there_too(
    hass: HomeAssistant,
    entry: MockConfigEntry,
    household: Household,
    folder: Path,
    fake: FakeServer,
    asking: Asking,
) -> None:
    await set_options(hass, entry, activity_log=True, queue_limit=1)
    gate = asyncio.Event()
    fake.script(answer("one", gate), failure(400, "no", "invalid_request_error"))
    first = asking(household)
    await until(lambda: household.status().running == 1)
    waiting = asking(household, user="user_child")
    await until(lambda: household.status().waiting == 1)
    with pytest.raises(Rejected):
        await say(household)
    waiting.cancel()
    await until(lambda: household.status().waiting == 0)
    gate.set()
    await first
    with pytest.raises(EngineError):
        await say(household)
    refused, cancelled, finished, failed = requests(await lines(household, folder))
    assert (refused["outcome"], refused["reason"]) == ("refused", "queue_full")
    assert "started" not in refused
    assert (cancelled["outcome"], cancelled["started"]) == ("cancelled", None)
    assert finished["outcome"] == FINISHED
    assert (failed["outcome"], failed["first_token"]) == ("failed", None)


async def test_a_client_that_leaves_in_the_moment_of_its_refusal_has_left(
    household: Household, folder: Path, fake: FakeServer, asking: Asking
) -> None:
    gate = asyncio.Event()
    fake.script(answer("one", gate))
    first = asking(household)
    await until(lambda: household.status().running == 1)
    waiting = asking(household, user="user_child")
    await until(lambda: household.status().waiting == 1)
    waiting.cancel()
    household.queue.remove_node("child")
    gate.set()
    await first
    with suppress(asyncio.CancelledError):
        await waiting
    left, _ = requests(await lines(household, folder))
    assert (left["outcome"], left["reason"]) == ("cancelled", None)


async def test_no_text_name_key_or_address_is_ever_written(
    hass: HomeAssistant,
    household: Household,
    folder: Path,
    fake: FakeServer,
) -> None:
    hass.states.async_set("automation.wake_planted_child", "on", {"planted": "name"})
    fake.models = ("fake-model", "planted-model")
    watched = household.servers.get("server")
    watched.look_again()
    await until(lambda: "planted-model" in str(watched.capabilities))
    source = automation_id("automation.wake_planted_child")
    automation = Asker(
        "shared", source, None, Workload.BACKGROUND, IdentityRule.AUTOMATION
    )
    texts = GenerationRequest(
        [
            {"role": "system", "content": "planted system prompt"},
            {"role": "user", "content": "planted question"},
        ],
        64,
        model="planted-model",
        tools=[{"type": "function", "function": {"name": "planted_tool"}}],
        parameters={"stop": ["planted stop"]},
    )
    ask = Ask(automation, Workload.BACKGROUND, texts, "planted conversation")
    for reply in (answer("planted answer"), failure(400, "planted error", "planted")):
        fake.script(reply)
        with suppress(EngineError):
            async with household.generate(ask) as deltas:
                assert [delta async for delta in deltas]
    await say(household, "planted words")
    await lines(household, folder)
    everything = "".join(path.read_text() for path in folder.iterdir())
    assert len(requests(written(folder))) == 3
    for secret in (
        "planted",
        "automation.",
        "wake",
        "Parent",
        "Child",
        "Fair Share",
        "user_parent",
        "fake-model",
        "127.0.0.1",
        "http",
        str(fake.url.rpartition(":")[2]),
        household.entry.entry_id,
    ):
        assert secret not in everything


async def test_an_automation_is_known_again_by_an_id_that_tells_nothing(
    household: Household, folder: Path
) -> None:
    for name in ("automation.a", "automation.b", "automation.a"):
        asker = Asker(
            "shared", automation_id(name), None, None, IdentityRule.AUTOMATION
        )
        request = GenerationRequest([{"role": "user", "content": "hello"}], 8)
        ask = Ask(asker, Workload.BACKGROUND, request)
        async with household.generate(ask) as deltas:
            assert [delta async for delta in deltas]
    said = requests(await lines(household, folder))
    first, other, again = (line["source"] for line in said)
    assert first == again
    assert first != other
    assert first.startswith("shared/")


async def test_it_can_be_turned_on_and_off_while_the_household_runs(
    hass: HomeAssistant, fake: FakeServer, folder: Path
) -> None:
    entry = await running(hass, fake)
    household: Household = entry.runtime_data
    await say(household)
    await set_options(hass, entry, activity_log=True)
    await say(household, user="user_child")
    await set_options(hass, entry)
    await say(household)
    assert entry.runtime_data is household
    members = [line["member"] for line in requests(await lines(household, folder))]
    assert members == ["child"]


async def test_lines_are_written_together_and_never_by_the_event_loop(
    hass: HomeAssistant, household: Household, folder: Path, passes: Pass
) -> None:
    for _ in range(3):
        await say(household)
    assert not folder.exists()
    await passes(6)
    assert len(requests(written(folder))) == 3


async def test_many_lines_do_not_wait_for_the_timer(
    hass: HomeAssistant,
    household: Household,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(activity_log, "_ENOUGH_LINES", 2)
    await say(household)
    await say(household)
    await hass.async_block_till_done()
    assert len(requests(written(folder))) == 2


async def test_a_normal_stop_loses_nothing_not_even_what_ends_last(
    hass: HomeAssistant, household: Household, folder: Path
) -> None:
    await say(household)
    hass.bus.async_fire(EVENT_HOMEASSISTANT_FINAL_WRITE)
    await hass.async_block_till_done()
    assert len(requests(written(folder))) == 1
    await say(household)
    await hass.async_block_till_done()
    assert len(requests(written(folder))) == 2


async def test_the_end_of_home_assistant_is_the_last_moment_to_write(
    hass: HomeAssistant, household: Household, folder: Path
) -> None:
    await say(household)
    hass.bus.async_fire(EVENT_HOMEASSISTANT_CLOSE)
    await hass.async_block_till_done()
    assert len(requests(written(folder))) == 1


async def test_what_ends_after_the_household_was_unloaded_is_written(
    hass: HomeAssistant,
    entry: MockConfigEntry,
    household: Household,
    folder: Path,
    fake: FakeServer,
    asking: Asking,
) -> None:
    gate = asyncio.Event()
    fake.script(answer("one"), answer("one", gate, " two"))
    await say(household)
    last = asking(household)
    await until(lambda: household.node_status("parent").tokens.output == 2)
    await hass.config_entries.async_unload(entry.entry_id)
    gate.set()
    with pytest.raises(Rejected):
        await last
    await hass.async_block_till_done()
    outcomes = [line["outcome"] for line in requests(written(folder))]
    assert outcomes == [FINISHED, "stopped"]
    (head,) = [line for line in written(folder) if line["type"] == "household"]
    assert [each["server_id"] for each in head["servers"]] == ["server"]


async def test_a_deleted_household_leaves_no_log(
    hass: HomeAssistant,
    entry: MockConfigEntry,
    household: Household,
    folder: Path,
    fake: FakeServer,
    asking: Asking,
) -> None:
    gate = asyncio.Event()
    fake.script(answer("one"), answer("one", gate, " two"))
    await say(household)
    last = asking(household)
    await until(lambda: household.node_status("parent").tokens.output == 2)
    await lines(household, folder)
    assert folder.exists()
    await hass.config_entries.async_remove(entry.entry_id)
    gate.set()
    with pytest.raises(Rejected):
        await last
    await hass.async_block_till_done()
    assert not folder.exists()


async def test_old_files_go_also_while_nothing_is_logged(
    hass: HomeAssistant, fake: FakeServer, folder: Path, passes: Pass
) -> None:
    folder.mkdir()
    old = folder / "activity-2020-02-02.jsonl"
    old.touch()
    await running(hass, fake)
    await passes(7 * 3600)
    await until(lambda: not old.exists())


async def test_a_disk_that_refuses_is_told_once_and_disturbs_nobody(
    household: Household, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder.write_text("a file where the folder should be")
    caplog.set_level(logging.WARNING)
    for _ in range(2):
        await say(household)
        await household.activity.async_flush()
    warnings = [text for text in caplog.messages if "activity log" in text]
    assert len(warnings) == 1
    folder.unlink()
    await say(household)
    assert len(requests(await lines(household, folder))) == 1


async def test_a_disk_that_hangs_costs_no_more_than_so_much_memory(
    household: Household,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(activity_log, "_MOST_LINES", 1)
    await say(household)
    await say(household)
    assert len(requests(await lines(household, folder))) == 1
    assert "The activity log loses lines" in caplog.text


def test_what_lost_its_server_and_was_given_up_had_started() -> None:
    request = Request("r1", "child/direct/chat", 10, 100)
    record = RequestRecord(
        "r1",
        "child/direct/chat",
        Workload.CHAT,
        Outcome.CANCELLED,
        rule=None,
        server_id=None,
        wait_s=2.0,
        ttft_s=3.0,
        duration_s=9.0,
        tokens=TokenCount(10, 0, 5),
        charge=20.0,
    )
    path = ("household", "child", "child/direct", "child/direct/chat")
    line = request_line(Ending(request, path, 9.0, record), 100.0, "secret")
    assert (line["started"], line["first_token"]) == (93.0, 94.0)
