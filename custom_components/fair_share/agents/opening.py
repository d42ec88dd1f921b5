"""How the prompts of an agent begin when a satellite asks."""

from homeassistant.components import conversation
from homeassistant.components.conversation import ChatLog, ConverseError
from homeassistant.core import HomeAssistant
from homeassistant.helpers import llm

from ..const import DOMAIN
from ..engines.base import GenerationRequest
from ..household.openings import Opening
from .prompt import build
from .settings import AgentSettings
from .tools import Toolbox


async def async_opening(
    hass: HomeAssistant,
    settings: AgentSettings,
    *,
    device_id: str | None,
    language: str | None,
) -> Opening | None:
    """Return the opening of what a device will ask, ``None`` if it can't be told."""
    chat_log = ChatLog(hass, "")
    context = llm.LLMContext(
        platform=DOMAIN,
        context=None,
        language=language,
        assistant=conversation.DOMAIN,
        device_id=device_id,
    )
    try:
        await chat_log.async_provide_llm_data(
            context, list(settings.llm_apis), settings.prompt
        )
    except ConverseError:
        return None
    request = GenerationRequest(
        messages=build(chat_log.content, {}).messages(),
        max_output_tokens=1,
        model=settings.model,
        tools=Toolbox(chat_log.llm_api).definitions,
        parameters=settings.parameters,
    )
    return Opening.of(request)
