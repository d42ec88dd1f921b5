"""The fields of a share: what members, devices and clients have in common."""

from homeassistant.config_entries import ConfigEntry
from homeassistant.data_entry_flow import section
from homeassistant.helpers.selector import (
    SelectOptionDict,
    SelectSelector,
    SelectSelectorConfig,
    SelectSelectorMode,
)
import voluptuous as vol

from ..const import (
    CONF_CONTEXT_TOKENS,
    CONF_IN_FLIGHT,
    CONF_MEMBER,
    CONF_OUTPUT_TOKENS,
    CONF_QUEUED,
    CONF_WEIGHT,
    SHARED_ID,
)
from .quota import quota_fields
from .schemas import Fields, weight, whole_number

SECTION_QUOTA = "quota"
SECTION_LIMITS = "limits"


def owner_choice(household: ConfigEntry, *subentry_types: str) -> SelectSelector:
    """Return a list of those whose share something may use, and the shared one."""
    options = [
        SelectOptionDict(value=owner.subentry_id, label=owner.title)
        for subentry_type in subentry_types
        for owner in household.get_subentries_of_type(subentry_type)
    ]
    options.append(SelectOptionDict(value=SHARED_ID, label=SHARED_ID))
    return SelectSelector(
        SelectSelectorConfig(
            options=options,
            translation_key=CONF_MEMBER,
            mode=SelectSelectorMode.DROPDOWN,
        )
    )


def share_fields() -> Fields:
    """Return weight, quota and limits."""
    limits: Fields = {
        vol.Optional(CONF_CONTEXT_TOKENS): whole_number(1),
        vol.Optional(CONF_OUTPUT_TOKENS): whole_number(1),
        vol.Optional(CONF_IN_FLIGHT): whole_number(1),
        vol.Optional(CONF_QUEUED): whole_number(1),
    }
    return {
        vol.Required(CONF_WEIGHT, default=1.0): weight(),
        vol.Required(SECTION_QUOTA): section(
            vol.Schema(quota_fields()), {"collapsed": False}
        ),
        vol.Required(SECTION_LIMITS): section(vol.Schema(limits), {"collapsed": True}),
    }
