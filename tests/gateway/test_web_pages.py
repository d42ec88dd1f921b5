"""Which web pages a browser lets use the gateway."""

import asyncio
from collections.abc import Mapping

from homeassistant.components.http.ban import KEY_FAILED_LOGIN_ATTEMPTS
from homeassistant.core import HomeAssistant
from homeassistant.setup import async_setup_component
import pytest

from custom_components.fair_share.const import CONF_WEB_PAGES, GATEWAY_PATH
from custom_components.fair_share.household.web_pages import (
    AnyPageError,
    PageError,
    PageWithPathError,
    origin_of,
)
from tests.common import client
from tests.fake_server import answer
from tests.gateway.conftest import (
    CHAT,
    HELLO,
    KEY,
    House,
    MakeHouse,
    Program,
    sent,
    text_of,
)

PAGE = "http://192.168.1.20:3000"
OTHER = "http://evil.example"
ALLOWED = "Access-Control-Allow-Origin"
MODELS = f"{GATEWAY_PATH}/models"


@pytest.fixture
async def listing(house: House) -> House:
    """The household lists one page."""
    await let(house, PAGE)
    return house


async def let(house: House, *pages: str) -> None:
    """List these pages and no others."""
    options = {**house.entry.options, CONF_WEB_PAGES: [*pages]}
    house.hass.config_entries.async_update_entry(house.entry, options=options)
    await house.hass.async_block_till_done()


async def asked_first(
    program: Program, path: str = CHAT, origin: str = PAGE, **more: str
) -> tuple[int, Mapping[str, str]]:
    """Return what a browser is told that asks before it sends a page's request."""
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        **{name.replace("_", "-"): value for name, value in more.items()},
    }
    async with program.http.options(path, headers=headers) as response:
        return response.status, response.headers


@pytest.mark.parametrize(
    "path",
    [
        CHAT,
        MODELS,
        "/api/fair_share/health",
        "/api/fair_share/props",
        "/api/fair_share/version",
        *(
            f"{GATEWAY_PATH}/{name}"
            for name in (
                "completions",
                "embeddings",
                "health",
                "models/fake-model",
                "props",
                "version",
            )
        ),
    ],
)
async def test_a_listed_page_may_ask(listing: House, path: str) -> None:
    status, headers = await asked_first(
        listing.program,
        path,
        Access_Control_Request_Headers="authorization,content-type,x-stainless-os",
    )
    assert (status, headers[ALLOWED], headers["Vary"]) == (204, PAGE, "Origin")
    assert headers["Access-Control-Allow-Methods"] == "GET, POST"
    assert headers["Access-Control-Allow-Headers"] == (
        "authorization,content-type,x-stainless-os"
    )
    assert "Access-Control-Allow-Credentials" not in headers


@pytest.mark.parametrize(
    "origin",
    [OTHER, "null", "", PAGE + "/", PAGE.replace("3000", "3001"), "https" + PAGE[4:]],
)
async def test_no_other_page_may(listing: House, origin: str) -> None:
    status, headers = await asked_first(listing.program, origin=origin)
    assert (status, ALLOWED in headers) == (403, False)
    response = await listing.program.post(Origin=origin)
    assert response.status == 200  # a browser keeps it from the page
    assert ALLOWED not in response.headers


async def test_no_page_may_unless_it_is_turned_on(house: House) -> None:
    status, headers = await asked_first(house.program)
    assert (status, ALLOWED in headers) == (403, False)
    response = await house.program.post(Origin=PAGE)
    assert not {ALLOWED, "Vary"} & response.headers.keys()


@pytest.mark.parametrize("names", ["a b; c, <script>", "x" * 65, "x," * 40 + "x", ","])
async def test_odd_names_of_headers_are_not_repeated(
    listing: House, names: str
) -> None:
    _, headers = await asked_first(
        listing.program, Access_Control_Request_Headers=names
    )
    assert headers["Access-Control-Allow-Headers"] == "authorization, content-type"


async def test_a_page_can_read_every_kind_of_answer(listing: House) -> None:
    program = listing.program
    whole = await program.post(Origin=PAGE)
    stream = await program.post(body={**HELLO, "stream": True}, Origin=PAGE)
    answers = [
        whole,
        stream,
        await program.get(MODELS, Origin=PAGE),
        await program.post(body={"messages": []}, Origin=PAGE),
        await listing.other("fs-wrong").post(Origin=PAGE),
        await program.get(f"{GATEWAY_PATH}/health", Origin=PAGE),
        await program.get(f"{MODELS}/gpt-4o", Origin=PAGE),
        await program.http.post(CHAT, data=b"{", headers={"Origin": PAGE}),
    ]
    told = [each.status for each in answers]
    assert told == [200, 200, 200, 400, 401, 200, 404, 401]
    for each in answers:
        assert "Access-Control-Allow-Credentials" not in each.headers
        assert each.headers[ALLOWED] == PAGE
        assert each.headers["Access-Control-Expose-Headers"] == "*"
    assert text_of(sent(await stream.read())) == "Hello."


async def test_a_page_can_read_when_to_ask_again(make_house: MakeHouse) -> None:
    house = await make_house(client("desktop", KEY, requests_per_minute=1))
    await let(house, PAGE)
    assert (await house.program.post(Origin=PAGE)).status == 200
    slower = await house.program.post(Origin=PAGE)
    assert (slower.status, slower.headers[ALLOWED]) == (429, PAGE)
    assert int(slower.headers["Retry-After"]) > 0


async def test_a_change_of_the_list_leaves_what_runs_alone(listing: House) -> None:
    gate = asyncio.Event()
    listing.server.default = answer("Hel", gate, "lo.")
    asked = len(listing.server.chats)
    runs = asyncio.ensure_future(
        listing.program.post(body={**HELLO, "stream": True}, Origin=PAGE)
    )
    await listing.server.wait_chats(asked + 1)
    response = await runs
    await let(listing, OTHER)
    gate.set()
    assert text_of(sent(await response.read())) == "Hello."
    assert (await asked_first(listing.program, origin=OTHER))[0] == 204
    assert len(listing.server.chats) == asked + 1


async def test_a_page_that_is_taken_off_the_list_may_no_longer(listing: House) -> None:
    await let(listing)
    status, _ = await asked_first(listing.program)
    assert status == 403


async def test_to_be_asked_first_is_no_wrong_key(listing: House) -> None:
    for origin in (OTHER, PAGE) * 15:
        await asked_first(listing.program, origin=origin)
    wrong = await listing.other("fs-wrong").post(Origin=PAGE)
    assert wrong.status == 401  # 429 had it been asked for too often


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("http://192.168.1.20:3000", "http://192.168.1.20:3000"),
        (" https://Chat.Example/ ", "https://chat.example"),
        ("https://chat.example:443", "https://chat.example"),
        ("http://[FD00::1]:8080", "http://[fd00::1]:8080"),
        ("http://m\u00fcller.example", "http://xn--mller-kva.example"),
    ],
)
def test_an_address_becomes_what_browsers_send(text: str, origin: str) -> None:
    assert origin_of(text) == origin


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("*", AnyPageError),
        ("http://*.example", AnyPageError),
        ("", PageError),
        ("null", PageError),
        ("chat.example", PageError),
        ("192.168.1.20:3000", PageError),
        ("http://user@chat.example", PageError),
        ("http://:word@chat.example", PageError),
        ("http://chat.example:70000", PageError),
        ("http://chat.example, http://b.example", PageError),
        ("http://a b", PageError),
        ("http://a\\b", PageError),
        ("file:///home/page.html", PageError),
        ("app://chat.example", PageError),
        ("http://", PageError),
        ("http://[::1", PageError),
        ("http://chat.example/page", PageWithPathError),
        ("http://chat.example?x=1", PageWithPathError),
        ("http://chat.example/#top", PageWithPathError),
    ],
)
def test_what_is_no_address_of_a_web_server_is_refused(
    text: str, error: type[PageError]
) -> None:
    with pytest.raises(PageError) as refused:
        origin_of(text)
    assert refused.type is error


@pytest.mark.parametrize("stored", [PAGE, [5], {PAGE: True}])
async def test_a_list_that_makes_no_sense_lets_nobody_in(
    house: House, stored: object
) -> None:
    house.hass.config_entries.async_update_entry(
        house.entry, options={CONF_WEB_PAGES: stored}
    )
    await house.hass.async_block_till_done()
    assert (await asked_first(house.program))[0] == 403
    assert (await house.program.post(Origin=PAGE)).status == 200


class TestWithHomeAssistantsOwnSetting:
    """``http: cors_allowed_origins`` is for all of Home Assistant but the gateway."""

    @pytest.fixture(autouse=True)
    async def _home(self, hass: HomeAssistant, socket_enabled: None) -> None:
        assert await async_setup_component(hass, "homeassistant", {})
        assert await async_setup_component(
            hass,
            "api",
            {
                "http": {
                    "cors_allowed_origins": [OTHER],
                    "ip_ban_enabled": True,
                    "login_attempts_threshold": 1,
                }
            },
        )

    async def test_it_does_not_hold_here(self, listing: House) -> None:
        program = listing.program
        for origin, status in ((OTHER, 403), (PAGE, 204)):
            assert (await asked_first(program, origin=origin))[0] == status
        assert ALLOWED not in (await program.post(Origin=OTHER)).headers
        assert (await program.post(Origin=PAGE)).headers[ALLOWED] == PAGE
        wrong = await listing.other("fs-wrong").post(Origin=PAGE)
        assert (wrong.status, wrong.headers[ALLOWED]) == (401, PAGE)
        assert not program.http.app[KEY_FAILED_LOGIN_ATTEMPTS]  # type: ignore[index]
        elsewhere, headers = await asked_first(program, "/api/config", origin=OTHER)
        assert (elsewhere, headers[ALLOWED]) == (200, OTHER)
