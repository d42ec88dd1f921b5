"""A logged-in browser that takes small pictures of pages without errors."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.async_api import Locator, Page, async_playwright

from demo.people import PASSWORD, Person

WIDTH = 1280
_HEIGHT = 800
_LIMIT_MS = 90_000
_SETTLE_S = 3.0
"""For charts and transitions to come to rest."""

_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
_BROKEN = "hui-error-card, hui-warning, hui-error-badge"


class Camera:
    """One tab of a browser in which somebody is logged in."""

    def __init__(self, page: Page, url: str, folder: Path) -> None:
        self.page = page
        self.errors: list[str] = []
        self._url = url
        self._folder = folder
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    async def open(self, path: str, *, height: int = _HEIGHT) -> None:
        """Go to a page of Home Assistant, in a window of this height."""
        await self.page.set_viewport_size({"width": WIDTH, "height": height})
        await self.page.goto(f"{self._url}{path}")

    async def take(self, name: str, *expected: Locator) -> None:
        """Take a picture once all of this is to be seen, and nothing broken is."""
        for each in expected:
            await each.first.wait_for()
        await asyncio.sleep(_SETTLE_S)
        assert await self.page.locator(_BROKEN).count() == 0, f"{name}: a broken card"
        assert not self.errors, f"{name}: {self.errors}"
        picture = Image.open(BytesIO(await self.page.screenshot()))
        # A page of a frontend has few colours: so it is a third of the size.
        picture.convert("RGB").quantize(256).save(
            self._folder / f"{name}.png", optimize=True
        )


@asynccontextmanager
async def camera(
    url: str, person: Person, folder: Path, chromium: str
) -> AsyncIterator[Camera]:
    """Log in as this person; the pictures go into the folder.

    The last one is ``failed.png`` if something went wrong.
    """
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium, headless=True, args=_ARGUMENTS
        )
        context = await browser.new_context(
            locale="en-US", timezone_id="Europe/Amsterdam"
        )
        context.set_default_timeout(_LIMIT_MS)
        await context.add_init_script(
            "localStorage.setItem('dockedSidebar', JSON.stringify('always_hidden'))"
        )
        page = await context.new_page()
        found = Camera(page, url, folder)
        await found.open("/")
        await page.locator("input[name=username]").fill(person.username)
        await page.locator("input[name=password]").fill(PASSWORD)
        await page.get_by_role("button", name="Log in").click()
        await page.get_by_role("button", name="Assist (A)").wait_for()
        try:
            yield found
        except BaseException:
            await page.screenshot(path=folder / "failed.png")
            raise
        finally:
            await browser.close()
