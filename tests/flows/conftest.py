"""A server, some persons and a running household for the dialogs."""

from collections.abc import AsyncIterator, Iterator
from unittest.mock import patch

from aiohttp import web
from aiohttp.test_utils import TestServer
from homeassistant.core import HomeAssistant
from homeassistant.setup import async_setup_component
import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry, MockUser

from tests.common import household_entry, member, server
from tests.fake_server import FakeServer
from tests.flow_texts import record


@pytest.fixture(autouse=True)
async def _home(hass: HomeAssistant, socket_enabled: None) -> None:
    """Load what every real Home Assistant has loaded, and open the loopback."""
    assert await async_setup_component(hass, "homeassistant", {})


@pytest.fixture(autouse=True)
def _impatient() -> Iterator[None]:
    """Ask a loading server again at once."""
    with patch("custom_components.fair_share.flows.connect.LOADING_POLL_S", 0):
        yield


@pytest.fixture(autouse=True)
def _every_text_exists() -> Iterator[None]:
    """Fail a test in which a dialog shows something that has no text."""
    with record() as shown:
        yield
    assert not shown.missing
    assert not shown.unfilled


@pytest.fixture
async def llama() -> AsyncIterator[FakeServer]:
    """A llama.cpp server with two slots."""
    async with FakeServer("llama_cpp", slots=2, context_tokens=4096) as fake:
        yield fake


@pytest.fixture
async def web_page() -> AsyncIterator[str]:
    """The address of something that is no language model server."""

    async def page(_: web.Request) -> web.Response:
        return web.Response(text="<html>My router</html>", content_type="text/html")

    app = web.Application()
    app.router.add_get("/{path:.*}", page)
    async with TestServer(app, host="127.0.0.1") as site:
        yield f"http://127.0.0.1:{site.port}"


@pytest.fixture
async def persons(hass: HomeAssistant) -> dict[str, MockUser]:
    """Parent and Child, each with a user; returns the users by name."""
    users = {
        name: MockUser(id=f"user_{name}", name=name.capitalize()).add_to_hass(hass)
        for name in ("parent", "child")
    }
    config = [
        {"id": f"person_{name}", "name": user.name, "user_id": user.id}
        for name, user in users.items()
    ]
    assert await async_setup_component(hass, "person", {"person": config})
    return users


@pytest.fixture
async def household(hass: HomeAssistant, llama: FakeServer) -> MockConfigEntry:
    """A running household with a server and Parent."""
    entry = household_entry(server(llama.url), member("parent"))
    entry.add_to_hass(hass)
    assert await hass.config_entries.async_setup(entry.entry_id)
    return entry
