"""Recordings in chats: to whom they go, what is refused, and that nobody keeps them."""
# ruff: noqa: ASYNC240 - files of a few bytes in a temporary folder

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from custom_components.fair_share.const import CONF_ACTIVITY_LOG, GATEWAY_PATH
from custom_components.fair_share.diagnostics import async_get_config_entry_diagnostics
from tests.common import server, subentry
from tests.fake_server import FakeServer, answer, failure
from tests.gateway.conftest import CHAT, House, MakeHouse, soon

RECORDED = b64encode(b"what somebody said" * 40).decode()
SOUND = {
    "type": "input_audio",
    "input_audio": {"data": RECORDED, "format": "wav"},
}
NAMED = {
    "type": "audio_url",
    "audio_url": {"url": f"data:audio/mpeg;base64,{RECORDED}"},
}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
QUESTION = {"type": "text", "text": "What is said?"}


def heard(*parts: Any) -> list[Any]:
    """Return messages with a question and these parts."""
    return [{"role": "user", "content": [QUESTION, *parts]}]


async def modalities(house: House) -> tuple[Any, Any]:
    """Return what the gateway tells that the only model takes, in both its forms."""
    models = await (await house.program.get(f"{GATEWAY_PATH}/models")).json()
    props = await (await house.program.get(f"{GATEWAY_PATH}/props")).json()
    (model,) = models["data"]
    return model["architecture"]["input_modalities"], props["modalities"]


@pytest.fixture(name="hass_config_dir")
def fixture_hass_config_dir(hass_tmp_config_dir: str) -> str:
    """Give each household a folder of its own."""
    return hass_tmp_config_dir


@pytest.fixture
async def hearing() -> AsyncIterator[FakeServer]:
    """A server that hears."""
    async with FakeServer("vllm", context_tokens=32_768) as fake:
        fake.audio = True
        fake.default = answer("A", " bell")
        yield fake


async def join(house: House, fake: FakeServer) -> None:
    """Add a server to the household."""
    added = server(fake.url, subentry_id="second", kind=fake.kind, slots=2)
    house.hass.config_entries.async_add_subentry(house.entry, subentry(added))
    await house.hass.async_block_till_done()
    await soon(lambda: len([*house.household.servers.ready()]) == 2)


@pytest.mark.parametrize("kind", ["llama_cpp", "vllm", "openai_compatible"])
@pytest.mark.parametrize("part", [SOUND, NAMED], ids=["input_audio", "audio_url"])
async def test_sound_reaches_a_server_that_hears_as_it_was_sent(
    make_house: MakeHouse, kind: str, part: Any
) -> None:
    house = await make_house(kind=kind, audio=True)
    for told in (
        await house.program.chat(messages=heard(part)),
        await house.program.stream(messages=heard(part)),
    ):
        assert told
        (message,) = house.server.chats[-1].body["messages"]
        assert message["content"] == [QUESTION, part]
    inputs, props = await modalities(house)
    assert (inputs, props) == (["text", "audio"], {"vision": False, "audio": True})


@pytest.mark.parametrize("kind", ["llama_cpp", "vllm", "openai_compatible"])
async def test_sound_is_refused_before_it_waits_where_no_server_hears(
    make_house: MakeHouse, kind: str
) -> None:
    house = await make_house(kind=kind, vision=True)
    gate = asyncio.Event()
    house.server.default = answer("one", gate)
    asked = len(house.server.chats)
    busy = [asyncio.ensure_future(house.program.chat(max_tokens=8)) for _ in range(2)]
    await house.server.wait_chats(asked + 2)
    for part in (SOUND, NAMED):
        status, error = await house.program.refused(messages=heard(part), stream=True)
        assert (status, error["code"], error["param"], error["type"]) == (
            400,
            "no_audio",
            "messages",
            "invalid_request_error",
        )
    gate.set()
    await asyncio.gather(*busy)
    assert len(house.server.chats) == asked + 2
    inputs, props = await modalities(house)
    assert (inputs, props) == (["text", "image"], {"vision": True, "audio": False})


async def test_of_two_servers_the_one_that_hears_is_asked(
    make_house: MakeHouse, hearing: FakeServer
) -> None:
    house = await make_house(vision=True)
    await join(house, hearing)
    asked = [len(house.server.chats), len(hearing.chats)]
    for _ in range(3):
        told = await house.program.chat(messages=heard(SOUND))
        assert told["choices"][0]["message"]["content"] == "A bell"
    told = await house.program.chat(messages=heard(PICTURE))
    assert told["choices"][0]["message"]["content"] == "Hello."
    assert [len(house.server.chats), len(hearing.chats)] == [asked[0] + 1, asked[1] + 3]
    status, error = await house.program.refused(messages=heard(PICTURE, SOUND))
    assert (status, error["code"]) == (400, "no_audio")
    inputs, props = await modalities(house)
    assert sorted(inputs) == ["audio", "image", "text"]
    assert props == {"vision": True, "audio": True}


async def test_sound_waits_for_the_server_that_hears(
    make_house: MakeHouse, hearing: FakeServer
) -> None:
    house = await make_house()
    await join(house, hearing)
    gate = asyncio.Event()
    hearing.default = answer("A", gate, " bell")
    asked, before = len(hearing.chats), len(house.server.chats)
    talks = [
        asyncio.ensure_future(house.program.chat(messages=heard(SOUND)))
        for _ in range(3)
    ]
    await hearing.wait_chats(asked + 2)
    await soon(lambda: house.household.status().waiting == 1)
    gate.set()
    for told in await asyncio.gather(*talks):
        assert told["choices"][0]["message"]["content"] == "A bell"
    assert len(house.server.chats) == before


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_audio"},
        {"type": "input_audio", "input_audio": RECORDED},
        {"type": "input_audio", "input_audio": {"data": ""}},
        {"type": "input_audio", "input_audio": {"data": 5, "format": "wav"}},
        {"type": "input_audio", "input_audio": {"data": "http://192.168.0.1/x.wav"}},
        {"type": "input_audio", "input_audio": {"data": "file:///etc/passwd"}},
        {"type": "input_audio", "input_audio": {"url": "data:audio/wav;base64,AAAA"}},
        {"type": "audio_url", "audio_url": {"url": "http://192.168.0.1/x.wav"}},
        {"type": "audio_url", "audio_url": {"url": "data:text/html,x"}},
        {"type": "audio_url", "audio_url": {"data": RECORDED}},
        {"type": "audio_url", "audio_url": "file:///etc/passwd"},
    ],
)
async def test_nothing_is_fetched_to_be_heard(make_house: MakeHouse, part: Any) -> None:
    house = await make_house(audio=True)
    asked = len(house.server.chats)
    status, error = await house.program.refused(messages=heard(part))
    assert (status, error["code"], error["param"]) == (
        400,
        "unsupported_audio",
        "messages[0].content",
    )
    assert len(house.server.chats) == asked


async def test_no_address_slips_through_beside_the_sound(make_house: MakeHouse) -> None:
    house = await make_house(audio=True)
    away = "http://192.168.0.1/x.wav"
    sound = {**SOUND["input_audio"], "url": away}  # type: ignore[dict-item]
    both = {"type": "input_audio", "input_audio": sound, "audio_url": {"url": away}}
    await house.program.chat(messages=heard(both))
    (message,) = house.server.chats[-1].body["messages"]
    assert message["content"] == [QUESTION, SOUND]


async def test_too_much_sound_is_refused_as_any_other_body(
    make_house: MakeHouse,
) -> None:
    house = await make_house(audio=True)
    asked = len(house.server.chats)
    much = {"type": "input_audio", "input_audio": {"data": "A" * 2**24}}
    response = await house.program.post(CHAT, {"messages": heard(much)})
    assert (response.status, (await response.json())["error"]["code"]) == (
        413,
        "too_large",
    )
    assert len(house.server.chats) == asked


async def test_sound_that_can_not_fit_is_refused_where_nobody_counts(
    make_house: MakeHouse,
) -> None:
    house = await make_house(kind="vllm", audio=True, context_tokens=4096)
    house.server.hide = {"/tokenize"}
    asked = len(house.server.chats)
    hours = {"type": "input_audio", "input_audio": {"data": "A" * 4_000_000}}
    status, error = await house.program.refused(messages=heard(hours))
    assert (status, error["code"]) == (400, "context_length_exceeded")
    assert len(house.server.chats) == asked


async def test_a_recording_is_kept_by_nobody(
    make_house: MakeHouse, caplog: pytest.LogCaptureFixture
) -> None:
    house = await make_house(audio=True, options={CONF_ACTIVITY_LOG: True})
    caplog.set_level(logging.DEBUG)
    await house.program.chat(messages=heard(SOUND))
    house.server.script(failure(400, f"you said {RECORDED}", "x"))
    status, error = await house.program.refused(messages=heard(SOUND))
    assert (status, error["code"]) == (400, "refused")
    await house.program.refused(messages=heard({**SOUND, "input_audio": RECORDED}))
    await house.household.activity.async_flush()
    folder = Path(house.hass.config.path("fair_share"))
    lines = "".join(file.read_text() for file in folder.iterdir())
    assert lines.count("\n") >= 2
    told = await async_get_config_entry_diagnostics(house.hass, house.entry)
    assert told["servers"][0]["capabilities"]["audio"] is True
    ours = [each.getMessage() for each in caplog.records if _is_of_a_program(each)]
    assert ours
    for kept in (lines, json.dumps(told, default=str), str(error), *ours):
        assert RECORDED[:24] not in kept


def _is_of_a_program(line: logging.LogRecord) -> bool:
    return line.name.startswith(("custom_components", "homeassistant", "aiohttp"))
