"""What a caller of an action is told that asked for something impossible."""

from homeassistant.exceptions import ServiceValidationError

from ..const import DOMAIN


def mistake(key: str, placeholders: dict[str, str] | None = None) -> Exception:
    """Return a mistake of the caller, with the key of its translated sentence."""
    return ServiceValidationError(
        translation_domain=DOMAIN,
        translation_key=key,
        translation_placeholders=placeholders,
    )
