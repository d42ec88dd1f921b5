"""Founding a household."""

import asyncio
from collections.abc import Callable
from unittest.mock import patch

from homeassistant.config_entries import ConfigEntryState
from homeassistant.core import HomeAssistant
from homeassistant.data_entry_flow import FlowResultType
from homeassistant.helpers import llm
import pytest

from custom_components.fair_share.const import DOMAIN
from tests.fake_server import FakeServer, failure
from tests.flows.drive import fields, found, go_on, progress, shown

TALK = {"prompt": "Be kind.", "llm_hass_api": ["assist"]}


@pytest.mark.usefixtures("persons")
async def test_a_household_is_founded_with_a_server_its_persons_and_an_agent(
    hass: HomeAssistant, llama: FakeServer
) -> None:
    result = await found(hass)
    assert result["step_id"] == "user"
    assert set(fields(result)) == {"url", "api_key"}

    result = await go_on(
        hass, result, {"url": llama.url.removeprefix("http://") + "/v1/"}
    )
    assert result["step_id"] == "server"
    assert shown(result) == {"memory": "shared", "more": {"patient_slots": None}}
    assert result["description_placeholders"] == {
        "kind": "llama.cpp",
        "model": "fake-model",
        "slots": "2",
        "context": "4096",
        "memory": "not known",
    }

    result = await go_on(hass, result, {"memory": "separate"})
    assert result["step_id"] == "members"
    assert shown(result) == {"persons": ["person.parent", "person.child"]}

    result = await go_on(hass, result, shown(result))
    assert result["step_id"] == "agent"
    assert shown(result) == {
        "prompt": llm.DEFAULT_INSTRUCTIONS_PROMPT,
        "llm_hass_api": ["assist"],
    }

    result = await go_on(hass, result, TALK)
    assert result["type"] is FlowResultType.CREATE_ENTRY
    assert result["title"] == "Fair Share"
    entry = result["result"]
    assert entry.state is ConfigEntryState.LOADED
    assert entry.data == {}
    assert [
        (s.subentry_type, s.title, s.unique_id, dict(s.data))
        for s in entry.subentries.values()
    ] == [
        (
            "server",
            f"fake-model (127.0.0.1:{llama.port})",
            llama.url,
            {
                "url": llama.url,
                "kind": "llama_cpp",
                "model": "fake-model",
                "memory": "separate",
            },
        ),
        (
            "member",
            "Parent",
            "person_parent",
            {"person_id": "person_parent", "user_ids": [], "weight": 1.0},
        ),
        (
            "member",
            "Child",
            "person_child",
            {"person_id": "person_child", "user_ids": [], "weight": 1.0},
        ),
        (
            "agent",
            "Fair Share",
            None,
            {**TALK, "workload": "chat", "output_tokens": 1024},
        ),
    ]


@pytest.mark.usefixtures("persons")
async def test_nobody_has_to_become_a_member(
    hass: HomeAssistant, llama: FakeServer
) -> None:
    result = await go_on(hass, await found(hass), {"url": llama.url})
    result = await go_on(hass, result, {})
    result = await go_on(hass, result, {})
    result = await go_on(hass, result, TALK)
    assert [s.subentry_type for s in result["result"].subentries.values()] == [
        "server",
        "agent",
    ]


@pytest.mark.usefixtures("persons")
async def test_a_person_who_was_deleted_meanwhile_does_not_become_a_member(
    hass: HomeAssistant, llama: FakeServer
) -> None:
    result = await go_on(hass, await found(hass), {"url": llama.url})
    result = await go_on(hass, result, {})
    hass.states.async_remove("person.child")
    result = await go_on(hass, result, {"persons": ["person.parent", "person.child"]})
    result = await go_on(hass, result, TALK)
    members = result["result"].get_subentries_of_type("member")
    assert [member.title for member in members] == ["Parent"]


async def test_a_home_without_persons_is_not_asked_for_members(
    hass: HomeAssistant, llama: FakeServer
) -> None:
    result = await go_on(hass, await found(hass), {"url": llama.url})
    result = await go_on(hass, result, {})
    assert result["step_id"] == "agent"


async def test_an_agent_may_do_without_instructions_and_without_control(
    hass: HomeAssistant, llama: FakeServer
) -> None:
    result = await go_on(hass, await found(hass), {"url": llama.url})
    result = await go_on(hass, result, {})
    result = await go_on(hass, result, {"llm_hass_api": []})
    (_, agent) = result["result"].subentries.values()
    assert agent.data == {"prompt": "", "workload": "chat", "output_tokens": 1024}


@pytest.mark.usefixtures("household")
async def test_there_is_only_one_household(hass: HomeAssistant) -> None:
    result = await found(hass)
    assert result["type"] is FlowResultType.ABORT
    assert result["reason"] == "single_instance_allowed"


@pytest.mark.parametrize("address", ["", "hello world", "http://", "ftp://host"])
async def test_an_address_that_is_none_is_told_next_to_it(
    hass: HomeAssistant, address: str
) -> None:
    result = await go_on(hass, await found(hass), {"url": address})
    assert (result["step_id"], result["errors"]) == ("user", {"url": "invalid_address"})


def _needs_key(server: FakeServer) -> None:
    server.api_key = "secret"


def _has_no_model(server: FakeServer) -> None:
    server.models = ()


def _does_not_stream(server: FakeServer) -> None:
    server.streaming = False


def _fails(server: FakeServer) -> None:
    server.default = failure(500, "out of memory")


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (_fails, "server_failed"),
        (_needs_key, "invalid_auth"),
        (_has_no_model, "no_chat_model"),
        (_does_not_stream, "no_streaming"),
    ],
)
async def test_a_server_that_cannot_be_used_is_explained(
    hass: HomeAssistant,
    llama: FakeServer,
    spoil: Callable[[FakeServer], None],
    error: str,
) -> None:
    spoil(llama)
    typed = {"url": llama.url, "api_key": "guess"}
    result = await go_on(hass, await found(hass), typed)
    assert (result["step_id"], result["errors"]) == ("user", {"base": error})
    assert shown(result) == typed


async def test_a_server_that_is_off_is_explained_and_found_once_it_is_on(
    hass: HomeAssistant, llama: FakeServer
) -> None:
    await llama.stop()
    result = await go_on(hass, await found(hass), {"url": llama.url})
    assert (result["step_id"], result["errors"]) == ("user", {"base": "cannot_connect"})
    await llama.start()
    result = await go_on(hass, result, {"url": llama.url})
    assert result["step_id"] == "server"


async def test_something_else_at_the_address_is_explained(
    hass: HomeAssistant, web_page: str
) -> None:
    result = await go_on(hass, await found(hass), {"url": web_page})
    assert (result["step_id"], result["errors"]) == ("user", {"base": "wrong_server"})


async def test_the_key_is_kept_with_the_server(
    hass: HomeAssistant, llama: FakeServer
) -> None:
    llama.api_key = "secret"
    result = await found(hass)
    result = await go_on(hass, result, {"url": llama.url, "api_key": "secret"})
    result = await go_on(hass, result, {})
    result = await go_on(hass, result, TALK)
    (server, _) = result["result"].subentries.values()
    assert server.data["api_key"] == "secret"


@pytest.mark.parametrize(
    ("kind", "memory"),
    [("llama_cpp", "each answer has its own"), ("vllm", "shared by all answers")],
)
async def test_a_server_whose_memory_is_known_says_so(
    hass: HomeAssistant, kind: str, memory: str
) -> None:
    async with FakeServer(kind, slots=1) as server:
        result = await go_on(hass, await found(hass), {"url": server.url})
    assert "memory" not in fields(result)
    assert result["description_placeholders"]["memory"] == memory


async def test_what_a_server_does_not_tell_is_asked_for(hass: HomeAssistant) -> None:
    async with FakeServer("someone", models=("small", "org/large.gguf")) as server:
        result = await go_on(hass, await found(hass), {"url": server.url})
        assert set(fields(result)) == {"model", "slots", "context_tokens", "more"}
        assert result["description_placeholders"] == {
            "kind": "OpenAI-compatible server",
            "model": "small",
            "slots": "not known",
            "context": "not known",
            "memory": "not known",
        }
        declared = {"model": "org/large.gguf", "slots": 3, "context_tokens": 9000}
        result = await go_on(hass, result, declared)
        result = await go_on(hass, result, TALK)
    (added, _) = result["result"].subentries.values()
    assert added.title == f"large (127.0.0.1:{server.port})"
    assert added.data == {
        "url": server.url,
        "kind": "openai_compatible",
        **declared,
        "scheduling": "none",
    }


async def test_a_loading_server_is_waited_for(
    hass: HomeAssistant, llama: FakeServer
) -> None:
    llama.loading = True
    result = await go_on(hass, await found(hass), {"url": llama.url})
    assert result["type"] is FlowResultType.SHOW_PROGRESS
    assert (result["step_id"], result["progress_action"]) == ("loading", "loading")
    assert result["description_placeholders"] == {"url": llama.url}

    result = await go_on(hass, result)
    assert result["type"] is FlowResultType.SHOW_PROGRESS

    # Once by the dialog, once by the waiting, once again because it still loads.
    await llama.wait_requests(3)
    async with progress(hass):
        llama.loading = False
    result = await go_on(hass, result)
    assert (result["type"], result["step_id"]) == (FlowResultType.FORM, "server")


async def test_a_server_that_fails_while_loading_is_explained(
    hass: HomeAssistant, llama: FakeServer
) -> None:
    llama.loading = True
    result = await go_on(hass, await found(hass), {"url": llama.url})
    async with progress(hass):
        await llama.stop()
    result = await go_on(hass, result)
    assert (result["step_id"], result["errors"]) == ("user", {"base": "cannot_connect"})
    assert shown(result)["url"] == llama.url


async def test_a_server_is_not_waited_for_without_end(
    hass: HomeAssistant, llama: FakeServer
) -> None:
    llama.loading = True
    patience = "custom_components.fair_share.flows.connect.LOADING_PATIENCE_S"
    async with progress(hass):
        with patch(patience, 0):
            result = await go_on(hass, await found(hass), {"url": llama.url})
    result = await go_on(hass, result)
    assert (result["step_id"], result["errors"]) == ("user", {"base": "still_loading"})


async def test_closing_the_dialog_ends_the_waiting(
    hass: HomeAssistant, llama: FakeServer
) -> None:
    llama.loading = True
    result = await go_on(hass, await found(hass), {"url": llama.url})
    hass.config_entries.flow.async_abort(result["flow_id"])
    async with asyncio.timeout(10):
        await hass.async_block_till_done(wait_background_tasks=True)
    assert not hass.config_entries.flow.async_progress_by_handler(DOMAIN)
