"""Fields that several actions share."""

from typing import Any

from homeassistant.const import ATTR_CONFIG_ENTRY_ID, ATTR_DEVICE_ID
from homeassistant.helpers import config_validation as cv
import voluptuous as vol

type Fields = dict[vol.Marker, Any]

MOST_TOKENS = 1_000_000_000

HOUSEHOLD: Fields = {vol.Optional(ATTR_CONFIG_ENTRY_ID): str}
DEVICES: Fields = {
    **HOUSEHOLD,
    vol.Required(ATTR_DEVICE_ID): vol.All(cv.ensure_list, [str], vol.Length(min=1)),
}
