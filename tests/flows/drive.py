"""Drive dialogs in few words, and look at their forms."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from homeassistant.config_entries import ConfigEntry, ConfigSubentry
from homeassistant.core import HomeAssistant, callback
from homeassistant.data_entry_flow import EVENT_DATA_ENTRY_FLOW_PROGRESSED, section
import voluptuous as vol

from custom_components.fair_share.const import DOMAIN

type Result = dict[str, Any]

SHARE: Mapping[str, Any] = {
    "weight": 1.0,
    "quota": {"quota_window": "day", "quota_end": "stop"},
    "limits": {},
}
"""The least that the forms of members and devices want."""


async def found(hass: HomeAssistant) -> Result:
    """Begin to found a household."""
    return dict(
        await hass.config_entries.flow.async_init(DOMAIN, context={"source": "user"})
    )


async def repair(hass: HomeAssistant, entry: ConfigEntry) -> Result:
    """Begin to change the way to a server of the household."""
    return dict(
        await hass.config_entries.flow.async_init(
            DOMAIN, context={"source": "reconfigure", "entry_id": entry.entry_id}
        )
    )


async def go_on(
    hass: HomeAssistant, result: Result, user_input: Mapping[str, Any] | None = None
) -> Result:
    """Submit a form of the household's dialog."""
    return dict(
        await hass.config_entries.flow.async_configure(
            result["flow_id"], None if user_input is None else dict(user_input)
        )
    )


async def add(hass: HomeAssistant, entry: ConfigEntry, kind: str) -> Result:
    """Begin to add something of this kind to a household."""
    return dict(
        await hass.config_entries.subentries.async_init(
            (entry.entry_id, kind), context={"source": "user"}
        )
    )


async def change(
    hass: HomeAssistant, entry: ConfigEntry, subentry: ConfigSubentry
) -> Result:
    """Begin to change a part of a household."""
    return dict(
        await hass.config_entries.subentries.async_init(
            (entry.entry_id, subentry.subentry_type),
            context={"source": "reconfigure", "subentry_id": subentry.subentry_id},
        )
    )


async def submit(
    hass: HomeAssistant, result: Result, user_input: Mapping[str, Any] | None = None
) -> Result:
    """Submit a form of a part's dialog."""
    return dict(
        await hass.config_entries.subentries.async_configure(
            result["flow_id"], user_input if user_input is None else dict(user_input)
        )
    )


async def open_rules(hass: HomeAssistant, entry: ConfigEntry, *menu: str) -> Result:
    """Open the household's rules and choose these items of its menus, one by one."""
    result = await hass.config_entries.options.async_init(entry.entry_id)
    for item in menu:
        result = await hass.config_entries.options.async_configure(
            result["flow_id"], {"next_step_id": item}
        )
    return dict(result)


async def set_rules(
    hass: HomeAssistant, entry: ConfigEntry, *menu: str, **user_input: Any
) -> Result:
    """Open a form of the household's rules, change these fields and submit it."""
    result = await open_rules(hass, entry, *menu)
    return dict(
        await hass.config_entries.options.async_configure(
            result["flow_id"], filled(shown(result) | user_input)
        )
    )


def filled(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values without those of empty fields."""
    return {
        key: filled(value) if isinstance(value, Mapping) else value
        for key, value in values.items()
        if value is not None
    }


@asynccontextmanager
async def progress(hass: HomeAssistant) -> AsyncIterator[None]:
    """Wait at the end until a dialog that shows progress says that it went on."""
    went_on = asyncio.Event()
    unsub = hass.bus.async_listen(
        EVENT_DATA_ENTRY_FLOW_PROGRESSED, callback(lambda _: went_on.set())
    )
    yield
    async with asyncio.timeout(10):
        await went_on.wait()
    unsub()


def only(entry: ConfigEntry, kind: str) -> ConfigSubentry:
    """Return the one part of this kind."""
    (subentry,) = entry.get_subentries_of_type(kind)
    return subentry


def fields(result: Result) -> dict[str, Any]:
    """Return the selectors of a form by field, a section's under its name."""
    return _fields(result["data_schema"].schema)


def shown(result: Result) -> dict[str, Any]:
    """Return what stands in the fields of a form before anybody types."""
    return _shown(result["data_schema"].schema)


def _fields(schema: Mapping[Any, Any]) -> dict[str, Any]:
    return {
        marker.schema: _fields(field.schema.schema)
        if isinstance(field, section)
        else field
        for marker, field in schema.items()
    }


def _shown(schema: Mapping[Any, Any]) -> dict[str, Any]:
    return {
        marker.schema: _shown(field.schema.schema)
        if isinstance(field, section)
        else _value(marker)
        for marker, field in schema.items()
    }


def _value(marker: vol.Marker) -> object:
    suggested = (marker.description or {}).get("suggested_value")
    default = getattr(marker, "default", None)
    usual = default() if callable(default) else None
    return usual if suggested is None else suggested
