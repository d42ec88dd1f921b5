"""AI tasks: one entity for each way of doing them that the household has."""

from contextvars import ContextVar
from typing import override

from homeassistant.components.ai_task import (
    AITaskEntity,
    AITaskEntityFeature,
    GenDataTask,
    GenDataTaskResult,
)
from homeassistant.components.conversation import ChatLog
from homeassistant.config_entries import ConfigSubentry
from homeassistant.core import Context, HomeAssistant, callback
from homeassistant.helpers.chat_session import current_session
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback

from .admission.model import Workload
from .agents.ai_task import TaskRun
from .agents.settings import AgentSettings
from .const import CONF_WORKLOAD, SUBENTRY_AI_TASK
from .household.runtime import FairShareConfigEntry
from .subentry_entities import SubentryEntity, async_add_subentry_entities

PARALLEL_UPDATES = 0

_called_under: ContextVar[tuple[str, Context] | None] = ContextVar(
    "fair_share_ai_task_called_under", default=None
)
"""The chat session of a call, and the context it was made under."""


async def async_setup_entry(
    hass: HomeAssistant,
    entry: FairShareConfigEntry,
    async_add_entities: AddConfigEntryEntitiesCallback,
) -> None:
    """Add an entity for each subentry, now and whenever one is added."""
    async_add_subentry_entities(
        hass, entry, async_add_entities, {SUBENTRY_AI_TASK: FairShareTaskEntity}
    )


class FairShareTaskEntity(SubentryEntity, AITaskEntity):
    """Has tasks done by the model, through the household's queue."""

    _attr_supported_features = (
        AITaskEntityFeature.GENERATE_DATA | AITaskEntityFeature.SUPPORT_ATTACHMENTS
    )

    def __init__(
        self, entry: FairShareConfigEntry, subentry: ConfigSubentry, via_device_id: str
    ) -> None:
        """Take over how it was set up."""
        super().__init__(entry, subentry, via_device_id)
        self._settings = _read(subentry)

    @callback
    @override
    def async_apply(self, subentry: ConfigSubentry) -> None:
        """Take over a change; a running task is not disturbed."""
        self._settings = _read(subentry)

    @callback
    @override
    def async_set_context(self, context: Context) -> None:
        """Note who calls.

        Home Assistant says so only here, and runs calls side by side: by the time a
        task begins, the entity's own context may be another caller's. So it is kept
        where only this call finds it, with the session that only this call has.
        """
        super().async_set_context(context)
        if session := current_session.get():
            _called_under.set((session.conversation_id, context))

    @override
    async def _async_generate_data(
        self, task: GenDataTask, chat_log: ChatLog
    ) -> GenDataTaskResult:
        """Have a task done."""
        run = TaskRun(
            self._household,
            self._settings,
            task=task,
            chat_log=chat_log,
            context=_context_of(chat_log),
            entity_id=self.entity_id,
        )
        return GenDataTaskResult(chat_log.conversation_id, await run.async_run())


def _context_of(chat_log: ChatLog) -> Context:
    """Return the context that a task was called under; nobody's if there was none."""
    called = _called_under.get()
    if called is not None and called[0] == chat_log.conversation_id:
        return called[1]
    return Context()


def _read(subentry: ConfigSubentry) -> AgentSettings:
    usual = {CONF_WORKLOAD: Workload.BACKGROUND}
    return AgentSettings.from_data({**usual, **subentry.data})
