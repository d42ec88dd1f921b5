"""A page in a real Chromium that asks the gateway; skipped where there is none."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
import json
import os
from pathlib import Path
import shutil
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer
import pytest

from custom_components.fair_share.const import CONF_WEB_PAGES, GATEWAY_PATH
from tests.gateway.conftest import KEY, House

_LIMIT_S = 60
_NAMES = ("chromium", "chromium-browser", "google-chrome")

PAGE = """<!doctype html><script type="module">
const {base, key} = CONFIG;
const ask = (key, stream) => fetch(`${base}/chat/completions`, {
  method: "POST",
  headers: {"Content-Type": "application/json", "Authorization": `Bearer ${key}`},
  body: JSON.stringify({messages: [{role: "user", content: "Hello"}], stream}),
});
const read = async () => {
  const models = await (await fetch(`${base}/models`, {
    headers: {"Authorization": `Bearer ${key}`},
  })).json();
  const told = await ask(key, false);
  const id = told.headers.get("x-request-id") !== null;
  const whole = (await told.json()).choices[0].message.content;
  const reader = (await ask(key, true)).body
    .pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", text = "";
  for (let part; !(part = await reader.read()).done;) {
    const events = (rest + part.value).split("\\n\\n");
    rest = events.pop();
    for (const event of events)
      if (event.startsWith("data: {"))
        text += JSON.parse(event.slice(6)).choices[0].delta.content ?? "";
  }
  const refused = (await ask("fs-wrong", false)).status;
  return [models.data.length > 0, id, whole, text, refused];
};
const told = await read().catch((error) => error.name);
await fetch("/told", {method: "POST", body: JSON.stringify(told)});
</script>"""


def _chromium() -> str:
    named = os.environ.get("CHROMIUM")
    found = named or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip("no Chromium is here")
    return found


class Page:
    """A web page of the house, and what its script tells."""

    def __init__(self, base: str) -> None:
        """Ask the gateway at this address."""
        self._config = json.dumps({"base": base, "key": KEY})
        self.told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def show(self, _request: web.Request) -> web.Response:
        """Serve the page."""
        text = PAGE.replace("CONFIG", self._config)
        return web.Response(text=text, content_type="text/html")

    async def take(self, request: web.Request) -> web.Response:
        """Take what the script tells."""
        if not self.told.done():
            self.told.set_result(await request.json())
        return web.Response()


@asynccontextmanager
async def served(page: Page) -> AsyncIterator[str]:
    """Serve a page at an origin of its own while the block lasts."""
    app = web.Application()
    app.router.add_get("/", page.show)
    app.router.add_post("/told", page.take)
    async with TestServer(app) as server:
        yield f"http://{server.host}:{server.port}"


async def opened(page: Page, origin: str, profile: Path) -> Any:
    """Open the page in a browser and return what its script tells."""
    command: Sequence[str] = (
        _chromium(),
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        f"--user-data-dir={profile}",
        origin,
    )
    browser = await asyncio.create_subprocess_exec(
        *command,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_LIMIT_S):
            return await page.told
    finally:
        browser.terminate()
        await browser.wait()


@pytest.mark.parametrize(
    ("listed", "expected"),
    [(True, [True, True, "Hello.", "Hello.", 401]), (False, "TypeError")],
)
async def test_a_page_asks_if_its_origin_is_listed(
    house: House, tmp_path: Path, *, listed: bool, expected: Any
) -> None:
    page = Page(str(house.program.http.make_url(GATEWAY_PATH)))
    async with served(page) as origin:
        origins = [origin] * listed
        house.hass.config_entries.async_update_entry(
            house.entry, options={**house.entry.options, CONF_WEB_PAGES: origins}
        )
        await house.hass.async_block_till_done()
        assert await opened(page, origin, tmp_path / "profile") == expected
