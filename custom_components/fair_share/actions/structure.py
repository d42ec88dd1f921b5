"""The shape of an answer as an action is told it: named fields, each a selector."""

from homeassistant.const import CONF_DESCRIPTION, CONF_SELECTOR
from homeassistant.helpers import selector
import voluptuous as vol

from ..agents.structure import Structure

_REQUIRED = "required"

_FIELD = vol.Schema(
    {
        vol.Optional(CONF_DESCRIPTION): str,
        vol.Optional(_REQUIRED, default=False): bool,
        vol.Required(CONF_SELECTOR): selector.validate_selector,
    }
)


def structure(value: object) -> Structure:
    """Validate the fields of a structure. Raises ``vol.Invalid``."""
    fields = vol.Schema({str: _FIELD})(value)
    if not fields:
        raise vol.Invalid("a structure needs at least one field")
    markers: dict[vol.Marker, object] = {}
    for name, field in fields.items():
        marker = vol.Required if field[_REQUIRED] else vol.Optional
        key = marker(name, description=field.get(CONF_DESCRIPTION))
        markers[key] = selector.selector(field[CONF_SELECTOR])
    return Structure(vol.Schema(markers, extra=vol.PREVENT_EXTRA))
