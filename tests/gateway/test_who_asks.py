"""Keys, tokens of Home Assistant, and where they may come from."""

from unittest.mock import patch

from homeassistant.components.http.ban import KEY_FAILED_LOGIN_ATTEMPTS
from homeassistant.core import HomeAssistant
import pytest
from pytest_homeassistant_custom_component.common import MockUser
from pytest_homeassistant_custom_component.typing import ClientSessionGenerator

from custom_components.fair_share.const import GATEWAY_PATH
from custom_components.fair_share.gateway.lockout import Lockout
from tests.common import client, member, subentry
from tests.fake_server import answer
from tests.gateway.conftest import (
    CHAT,
    CHILD_KEY,
    HELLO,
    KEY,
    SHARED_KEY,
    House,
    MakeHouse,
    Program,
)

IS_LOCAL = "custom_components.fair_share.gateway.callers.is_local"
IS_CLOUD = "custom_components.fair_share.gateway.callers.is_cloud_connection"


def charge(house: House, node_id: str) -> float:
    """Return what somebody has been charged."""
    return house.household.node_status(node_id).charge


async def test_a_key_is_charged_to_whom_it_belongs(house: House) -> None:
    for key, member_id, client_id in (
        (KEY, "parent", "desktop"),
        (CHILD_KEY, "child", "tablet"),
        (SHARED_KEY, "shared", "kitchen"),
    ):
        before = charge(house, member_id)
        await house.other(key).chat()
        assert charge(house, member_id) > before
        assert charge(house, client_id) == charge(house, member_id)


async def test_two_clients_of_a_member_share_their_quota(make_house: MakeHouse) -> None:
    house = await make_house(
        client("desktop", KEY, "parent"),
        client("tablet", CHILD_KEY, "parent"),
        members=(member("parent", quota_tokens=60),),
    )
    house.server.default = answer(*(" word" for _ in range(60)))
    first = await house.program.post(body={**HELLO, "max_tokens": 200})
    assert first.headers["x-ratelimit-limit-tokens"] == "60"
    await first.read()
    status, error = await house.other(CHILD_KEY).refused()
    assert (status, error["code"]) == (429, "insufficient_quota")


async def test_other_ways_to_send_a_key_are_understood(house: House) -> None:
    keyless = house.other("")
    for headers in ({"x_api_key": KEY}, {"api_key": KEY}):
        assert (await keyless.post(CHAT, HELLO, **headers)).status == 200
    response = await keyless.post(CHAT, HELLO, Authorization=f"bearer  {KEY} ")
    assert response.status == 200


@pytest.mark.parametrize("key", ["", "fs-", "fs-wrong", "x" * 5000, "ä", KEY[:-1]])
async def test_a_wrong_key_is_refused_so_that_clients_understand(
    house: House, key: str
) -> None:
    response = await house.other("").post(CHAT, HELLO, x_api_key=key)
    told = await response.json()
    assert response.status == 401
    assert told["error"]["code"] == "invalid_api_key"
    assert "x-request-id" in response.headers
    assert not house.server.chats[2:]


async def test_wrong_keys_lock_nobody_out(house: House) -> None:
    wrong = house.other("fs-wrong")
    statuses = [(await wrong.post()).status for _ in range(15)]
    assert statuses == [401] * 10 + [429] * 5
    refused = await wrong.post()
    assert int(refused.headers["Retry-After"]) >= 1
    assert (await house.program.post()).status == 200
    app = house.hass.http.app
    assert not app.get(KEY_FAILED_LOGIN_ATTEMPTS)


def test_wrong_keys_may_be_tried_again_after_a_while() -> None:
    lockout = Lockout()
    assert [lockout.note_wrong("a", 0.0) for _ in range(10)] == [0.0] * 10
    assert lockout.note_wrong("a", 0.0) == pytest.approx(6.0)
    assert lockout.note_wrong("b", 0.0) == 0.0
    assert lockout.note_wrong("a", 6.1) == 0.0
    assert lockout.note_wrong("a", 6.1) > 0


async def test_a_removed_client_is_refused_at_once(house: House) -> None:
    house.hass.config_entries.async_remove_subentry(house.entry, "desktop")
    await house.hass.async_block_till_done()
    assert (await house.program.post()).status == 401
    assert (await house.other(CHILD_KEY).post()).status == 200


async def test_a_new_key_keeps_what_was_used_and_ends_the_old_one(
    house: House,
) -> None:
    await house.program.chat()
    used = charge(house, "desktop")
    new = client("desktop", "fs-new", "parent")
    house.hass.config_entries.async_update_subentry(
        house.entry, house.entry.subentries["desktop"], data=new["data"]
    )
    await house.hass.async_block_till_done()
    assert (await house.program.post()).status == 401
    await house.other("fs-new").chat()
    assert charge(house, "desktop") > used > 0


async def test_there_is_nothing_until_there_is_a_client(house: House) -> None:
    paths = (f"{GATEWAY_PATH}/models", f"{GATEWAY_PATH}/health")
    assert [(await house.program.get(path)).status for path in paths] == [200, 200]
    for client_id in ("desktop", "tablet", "kitchen"):
        house.hass.config_entries.async_remove_subentry(house.entry, client_id)
    await house.hass.async_block_till_done()
    assert [(await house.program.get(path)).status for path in paths] == [404, 404]
    assert (await house.program.post()).status == 404
    added = subentry(client("desktop", KEY))
    house.hass.config_entries.async_add_subentry(house.entry, added)
    await house.hass.async_block_till_done()
    assert (await house.program.post()).status == 200


async def test_a_token_of_home_assistant_is_its_user(
    hass: HomeAssistant,
    make_house: MakeHouse,
    hass_client: ClientSessionGenerator,
    hass_admin_user: MockUser,
) -> None:
    house = await make_house(
        members=(member("parent", user_ids=(hass_admin_user.id,)),)
    )
    program = Program(await hass_client(), key="")
    await program.chat()
    assert charge(house, "parent/direct") == charge(house, "parent") > 0


async def test_outside_the_house_only_keys_that_may_are_taken(
    make_house: MakeHouse,
    hass_client: ClientSessionGenerator,
) -> None:
    house = await make_house(
        client("desktop", KEY), client("tablet", CHILD_KEY, from_outside=True)
    )
    user = Program(await hass_client(), key="")
    for where in (patch(IS_LOCAL, return_value=False), patch(IS_CLOUD, return_value=1)):
        with where:
            for program, status in (
                (house.program, 403),
                (house.other(CHILD_KEY), 200),
                (user, 403),
                (house.other("fs-wrong"), 401),
            ):
                assert (await program.post()).status == status
            _, error = await house.program.refused()
            assert error["code"] == "outside_not_allowed"


async def test_no_other_website_is_let_in(house: House) -> None:
    response = await house.program.post(Origin="https://example.com")
    assert response.status == 200
    assert "Access-Control-Allow-Origin" not in response.headers
    asked = await house.program.http.options(
        CHAT,
        headers={
            "Origin": "https://example.com",
            "Access-Control-Request-Method": "POST",
        },
    )
    assert asked.status in (403, 405)


async def test_a_client_keeps_its_pace(make_house: MakeHouse) -> None:
    house = await make_house(client("desktop", KEY, requests_per_minute=3))
    headers = []
    for _ in range(3):
        response = await house.program.post()
        assert response.status == 200
        headers.append(response.headers["x-ratelimit-remaining-requests"])
    assert headers == ["2", "1", "0"]
    response = await house.program.post()
    assert response.status == 429
    assert 1 <= int(response.headers["Retry-After"]) <= 20
    assert (await response.json())["error"]["code"] == "rate_limit_exceeded"


async def test_what_a_member_may_is_a_clients_limit_too(make_house: MakeHouse) -> None:
    house = await make_house(
        client("desktop", KEY, "parent", output_tokens=50),
        members=(member("parent", output_tokens=9, context_tokens=40),),
    )
    await house.program.chat(max_tokens=500)
    assert house.server.chats[-1].body["max_tokens"] == 9
    long = [{"role": "user", "content": " ".join("word" for _ in range(50))}]
    status, error = await house.program.refused(messages=long)
    assert (status, error["code"]) == (400, "context_length_exceeded")


TRIES = [
    ({"service_tier": "flex"}, {}, "background"),
    ({"service_tier": "auto"}, {}, "chat"),
    ({"service_tier": "default"}, {}, "chat"),
    ({"service_tier": "priority"}, {}, "chat"),
    ({"priority": -100}, {}, "chat"),
    ({"priority": 0}, {}, "chat"),
    ({"priority": 5}, {}, "background"),
    ({"priority": "high"}, {}, "chat"),
    ({"priority": True}, {}, "background"),
    ({"user": "parent"}, {}, "chat"),
    ({"user": "child", "metadata": {"member": "child"}}, {}, "chat"),
    ({"workload": "voice", "band": 0}, {}, "chat"),
    ({"id_slot": 0, "cache_prompt": False, "n_predict": 99}, {}, "chat"),
    ({}, {"x_llm_d_inference_fairness_id": "child"}, "chat"),
    ({}, {"x_llm_d_inference_objective": "fair-share-band-0"}, "chat"),
    ({}, {"priority": "u=0"}, "chat"),
    ({}, {"x_forwarded_user": "child", "x_request_id": "mine"}, "chat"),
]


@pytest.mark.parametrize(("body", "headers", "workload"), TRIES)
async def test_nothing_that_is_sent_raises_a_caller_or_charges_another(
    house: House, body: dict[str, object], headers: dict[str, str], workload: str
) -> None:
    response = await house.program.post(body={**HELLO, **body}, **headers)
    assert response.status == 200, await response.text()
    record = house.household.records()[-1]
    assert record.class_id == f"desktop/{workload}"
    assert charge(house, "parent") == charge(house, "household") > 0
    sent = house.server.chats[-1]
    never = {"id_slot", "n_predict", "priority", "service_tier", "user", "metadata"}
    assert not never & sent.body.keys()
    assert sent.body["cache_prompt"] is True
    assert not any("fairness" in name.lower() for name in sent.headers)
    assert response.headers["x-request-id"] == record.request_id


async def test_a_key_for_background_work_stays_in_the_background(
    make_house: MakeHouse,
) -> None:
    house = await make_house(client("desktop", KEY, workload="background"))
    for tier in ("priority", "auto", "flex"):
        await house.program.chat(service_tier=tier)
        assert house.household.records()[-1].class_id == "desktop/background"
