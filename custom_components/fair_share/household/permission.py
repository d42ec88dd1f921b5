"""Who may change what is shared out."""

from homeassistant.core import Context, HomeAssistant
from homeassistant.exceptions import Unauthorized, UnknownUser

from ..const import DOMAIN


class NotAllowed(Unauthorized):
    """Somebody asked for what only administrators may do."""

    def __init__(self, context: Context, key: str) -> None:
        """Say so in a translated sentence, by its key."""
        super().__init__(context=context)
        self.args = (key,)
        self.generate_message = True
        self.translation_domain = DOMAIN
        self.translation_key = key


async def async_is_free(hass: HomeAssistant, context: Context | None) -> bool:
    """Whether a caller may do everything: an administrator, or no person at all.

    Automations have no user, also when a person started what triggered them. Raises
    ``UnknownUser``.
    """
    if context is None or context.user_id is None:
        return True
    user = await hass.auth.async_get_user(context.user_id)
    if user is None:
        raise UnknownUser(context=context)
    return user.is_admin


async def async_need_admin(hass: HomeAssistant, context: Context | None) -> None:
    """Let nobody pass who could give themselves more than was agreed.

    Raises ``NotAllowed`` and ``UnknownUser``.
    """
    if context is not None and not await async_is_free(hass, context):
        raise NotAllowed(context, "administrators_only")
