"""What is looked at; the household is taken apart last."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
import random

from demo.api import Connection, Json
from demo.load import use_household
from demo.people import PARENT
from demo.running import RunningDemo

from .camera import Camera, camera

_LOAD_S = 900.0
_BEGUN_S = 75.0
"""Until the graphs have something to show."""

_BLUEPRINT = (
    Path(__file__).parents[2]
    / "blueprints"
    / "automation"
    / "fair_share"
    / "quota_nearly_used.yaml"
)
_HEADINGS = (
    "Now", "Tokens per day", "Quotas", "Fairness", "Waiting", "Servers", "Events",
)  # fmt: skip
_DAYS = 6


async def tour(demo: RunningDemo, folder: Path, chromium: str) -> None:
    """Take every picture. Raises ``AssertionError`` where a page is not right."""
    api = await demo.log_in(PARENT)
    url = demo.home_assistant.url
    async with (
        api.connect() as connection,
        camera(url, PARENT, folder, chromium) as view,
    ):
        await _make_up_days(connection)
        load = asyncio.create_task(use_household(demo, _LOAD_S))
        try:
            await _new_dashboard(view)
            await asyncio.sleep(_BEGUN_S)
            await _dashboard(view, connection)
            await _member(view, connection)
        finally:
            load.cancel()
            with suppress(asyncio.CancelledError):
                await load
        await _blueprint(view, connection)
        await _repair(view, connection)
        await _set_up(view, demo)


async def _make_up_days(connection: Connection) -> None:
    """Give the sensors of tokens a past: nobody waits a week for a picture."""
    rng = random.Random(7)
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    for member, usual in (("parent", 900), ("child", 500), ("guests", 300)):
        total, hours = 0.0, []
        for back in range(24 * _DAYS, 0, -1):
            total += rng.random() * usual
            start = hour - timedelta(hours=back)
            hours.append({"start": start.isoformat(), "state": total, "sum": total})
        await connection.command(
            "recorder/import_statistics",
            metadata={
                "has_sum": True,
                "mean_type": 0,
                "name": None,
                "source": "recorder",
                "statistic_id": f"sensor.{member}_tokens_served",
                "unit_class": None,
                "unit_of_measurement": "tokens",
            },
            stats=hours,
        )


async def _new_dashboard(view: Camera) -> None:
    page = view.page
    await view.open("/config/lovelace/dashboards")
    await page.get_by_role("button", name="Add dashboard").click()
    offer = page.locator("dashboard-card").get_by_text("Fair Share", exact=True)
    await offer.wait_for()
    await offer.scroll_into_view_if_needed()
    await view.take("new_dashboard", offer)
    await offer.click()
    title = page.get_by_role("textbox", name="Title")
    await title.fill("Fair Share")
    await page.get_by_role("button", name="Create").click()
    await page.get_by_role("button", name="Create").wait_for(state="detached")


async def _dashboard(view: Camera, connection: Connection) -> None:
    dashboards = await connection.command("lovelace/dashboards/list")
    path = next(d["url_path"] for d in dashboards if d["title"] == "Fair Share")
    # A few minutes of load would not be seen in the usual day.
    await connection.command(
        "lovelace/config/save",
        url_path=path,
        config={"strategy": {"type": "custom:fair-share", "hours": 0.05}},
    )
    await view.open(f"/{path}", height=1680)
    headings = [view.page.get_by_text(each, exact=True) for each in _HEADINGS]
    await view.take("dashboard", *headings)


async def _member(view: Camera, connection: Connection) -> None:
    devices = await connection.command("config/device_registry/list")
    child = next(each["id"] for each in devices if each["name"] == "Child")
    await view.open(f"/config/devices/device/{child}", height=1000)
    await view.take("member", view.page.get_by_text("Tokens this period"))


async def _blueprint(view: Camera, connection: Connection) -> None:
    await connection.command(
        "blueprint/save",
        domain="automation",
        path="fair_share/quota_nearly_used.yaml",
        yaml=_BLUEPRINT.read_text(encoding="utf-8"),
    )
    page = view.page
    await view.open("/config/blueprint/dashboard", height=760)
    await page.get_by_text("quota", exact=False).first.click()
    await view.take("blueprint", page.get_by_text("Threshold"))


async def _repair(view: Camera, connection: Connection) -> None:
    people = await connection.command("person/list")
    child: Json = next(each for each in people["storage"] if each["name"] == "Child")
    # Somebody has to be there to choose from.
    await connection.command("person/create", name="Teen")
    await connection.command("person/delete", person_id=child["id"])
    page = view.page
    await view.open("/config/repairs")
    await page.get_by_text("The person of Child does not exist any more").click()
    await view.take("repair", page.get_by_text("Choose who it is now"))


async def _set_up(view: Camera, demo: RunningDemo) -> None:
    """Set the household up anew, after it was deleted."""
    page = view.page
    await page.evaluate(
        "path => document.querySelector('home-assistant').hass.callApi('DELETE', path)",
        f"config/config_entries/entry/{demo.household.entry_id}",
    )
    await view.open("/config/integrations/dashboard/add?domain=fair_share")
    await page.get_by_role("button", name="OK").click()
    flow = page.locator("dialog-data-entry-flow")
    await flow.get_by_role("textbox", name="Address").fill(demo.server.url)
    await flow.get_by_role("button", name="Submit").click()
    await view.take("set_up", flow.get_by_text("What was found"))
