"""The fields of a share: what a member and a device have in common."""

from homeassistant.data_entry_flow import section
import voluptuous as vol

from ..const import (
    CONF_CONTEXT_TOKENS,
    CONF_IN_FLIGHT,
    CONF_OUTPUT_TOKENS,
    CONF_QUEUED,
    CONF_WEIGHT,
)
from .quota import quota_fields
from .schemas import Fields, weight, whole_number

SECTION_QUOTA = "quota"
SECTION_LIMITS = "limits"


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
