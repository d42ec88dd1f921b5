"""What went wrong, in a sentence for the person who asked and a line for the log."""

from collections.abc import Mapping
from datetime import datetime, timedelta
import logging

from homeassistant.components.conversation import (
    DOMAIN as CONVERSATION_DOMAIN,
    ConversationResult,
)
from homeassistant.core import HomeAssistant
from homeassistant.exceptions import HomeAssistantError
from homeassistant.helpers import intent
from homeassistant.helpers.translation import async_get_translations
from homeassistant.util import dt as dt_util

from ..admission.model import Rejected, RejectReason
from ..const import DOMAIN
from ..engines.base import (
    AuthError,
    BusyError,
    ClientFaultError,
    ContextOverflowError,
    EngineError,
    LoadingError,
    NoChatModelError,
    NoStreamingError,
    NotAnEngineError,
    PoolExhaustedError,
    StreamCutError,
    UnreachableError,
)

_LOGGER = logging.getLogger(__name__)

_REJECTED: Mapping[RejectReason, str] = {
    RejectReason.TOO_LONG: "too_long",
    RejectReason.QUEUE_FULL: "queue_full",
    RejectReason.NO_SERVER: "server_away",
    RejectReason.NO_MODEL: "no_model",
    RejectReason.NO_VISION: "no_vision",
    RejectReason.NO_AUDIO: "no_audio",
    RejectReason.CANCELLED: "cancelled",
    RejectReason.CLASS_REMOVED: "stopped",
    RejectReason.CLOSED: "stopped",
}
_ENGINE: Mapping[type, str] = {
    UnreachableError: "server_away",
    NotAnEngineError: "server_unsuitable",
    NoChatModelError: "server_unsuitable",
    NoStreamingError: "server_unsuitable",
    AuthError: "server_refused_key",
    LoadingError: "server_loading",
    BusyError: "server_busy",
    ContextOverflowError: "too_long",
    PoolExhaustedError: "server_busy",
    ClientFaultError: "server_refused",
    StreamCutError: "answer_cut",
    EngineError: "server_failed",
}


class AgentError(HomeAssistantError):
    """A turn that did not come to its end.

    ``level`` is the level of the line in the log, and ``detail`` what it says beyond
    the key; it never holds anything a person said.
    """

    def __init__(
        self,
        key: str,
        placeholders: dict[str, str] | None = None,
        *,
        level: int = logging.WARNING,
        detail: str = "",
    ) -> None:
        """Keep the key of the translated sentence."""
        super().__init__(
            translation_domain=DOMAIN,
            translation_key=key,
            translation_placeholders=placeholders,
        )
        self.key = key
        self.placeholders = placeholders or {}
        self.level = level
        self.detail = detail

    async def async_sentence(self, hass: HomeAssistant, language: str) -> str:
        """Return the sentence in the language of the conversation, if there is one."""
        sentence = await _translated(
            hass, language, DOMAIN, f"exceptions.{self.key}.message"
        )
        return sentence.format(**self.placeholders)

    async def async_result(
        self, hass: HomeAssistant, language: str, conversation_id: str
    ) -> ConversationResult:
        """Return the sentence as what a conversation ends with."""
        response = intent.IntentResponse(language=language)
        response.async_set_error(
            intent.IntentResponseErrorCode.UNKNOWN,
            await self.async_sentence(hass, language),
        )
        return ConversationResult(response, conversation_id)

    def log(self, entity_id: str) -> None:
        """Write the one line that a failed turn leaves in the log."""
        reason = f"{self.key}: {self.detail}" if self.detail else self.key
        _LOGGER.log(self.level, "A turn of %s was not finished: %s", entity_id, reason)


def explain(
    error: Rejected | EngineError, quota_resets_at: datetime | None = None
) -> AgentError:
    """Return what to tell the person whose request ended like this.

    ``quota_resets_at`` is when the quota starts again, if it was the reason.
    """
    if isinstance(error, EngineError):
        key = next(_ENGINE[kind] for kind in type(error).__mro__ if kind in _ENGINE)
        return AgentError(key, detail=error.detail)
    if error.reason is RejectReason.QUOTA:
        return _quota(error, quota_resets_at)
    return AgentError(_REJECTED[error.reason], level=logging.INFO)


async def async_done(hass: HomeAssistant, language: str) -> str:
    """Return the short confirmation that Home Assistant itself uses."""
    return await _translated(
        hass, language, CONVERSATION_DOMAIN, "conversation.agent.done"
    )


def _quota(error: Rejected, resets_at: datetime | None) -> AgentError:
    now = dt_util.now()
    if error.retry_after_s is not None:
        # Seconds are rounded: the moment itself is a midnight.
        resets_at = now + timedelta(seconds=error.retry_after_s, minutes=1)
    if resets_at is None:
        return AgentError("quota_used_up", level=logging.INFO)
    days = (dt_util.as_local(resets_at).date() - now.date()).days
    if days <= 1:
        return AgentError("quota_used_up_today", level=logging.INFO)
    return AgentError("quota_used_up_days", {"days": str(days)}, level=logging.INFO)


async def _translated(
    hass: HomeAssistant, language: str, domain: str, path: str
) -> str:
    category = path.partition(".")[0]
    texts = await async_get_translations(hass, language, category, {domain})
    return texts[f"component.{domain}.{path}"]
