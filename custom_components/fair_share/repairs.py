"""Put right what is wrong in the household; ``household.issues`` finds it."""

from collections.abc import Mapping
from typing import Any, override

from homeassistant.components.repairs import RepairsFlow, RepairsFlowResult
from homeassistant.config_entries import ConfigEntry, ConfigEntryState, ConfigSubentry
from homeassistant.const import CONF_DEVICE_ID
from homeassistant.core import HomeAssistant
from homeassistant.data_entry_flow import AbortFlow
from homeassistant.helpers import device_registry as dr, issue_registry as ir
from homeassistant.helpers.selector import (
    EntitySelector,
    EntitySelectorConfig,
    SelectSelector,
    SelectSelectorConfig,
    SelectSelectorMode,
)
from homeassistant.helpers.typing import UNDEFINED, UndefinedType
import voluptuous as vol

from .const import (
    CONF_AGENT,
    CONF_CONTEXT_TOKENS,
    CONF_PATIENT_SLOTS,
    CONF_PERSON_ID,
    CONF_SLOTS,
    DOMAIN,
)
from .flows.device import device_id_for, device_name, devices_to_add
from .flows.people import PERSON_DOMAIN, persons_without_share
from .flows.wrapped_agent import agent_id_for, agents_to_wrap
from .household.issues import IssueKind

type Data = dict[str, str | int | float | None]

_CONF_PERSON = "person"


async def async_create_fix_flow(
    _hass: HomeAssistant, _issue_id: str, data: Data | None
) -> RepairsFlow:
    """Return the dialog that puts an issue right."""
    return _FLOWS[IssueKind(str((data or {})["kind"]))]()


class _HouseholdRepair(RepairsFlow):
    """A dialog that changes the subentry that an issue is about."""

    async def async_step_init(
        self, _user_input: dict[str, Any] | None = None
    ) -> RepairsFlowResult:
        """Begin, if there is still something to put right."""
        if self._subentry is None:
            return self.async_create_entry(data={})
        return await self.async_step_start()

    async def async_step_start(self) -> RepairsFlowResult:
        """Show what can be done."""
        raise NotImplementedError

    @property
    def _entry(self) -> ConfigEntry:
        """The household. Raises ``AbortFlow`` while it does not run."""
        entry_id = str((self.data or {})["entry_id"])
        entry = self.hass.config_entries.async_get_entry(entry_id)
        if entry is None or entry.state is not ConfigEntryState.LOADED:
            raise AbortFlow("entry_not_loaded")
        return entry

    @property
    def _subentry(self) -> ConfigSubentry | None:
        return self._entry.subentries.get(str((self.data or {})["subentry_id"]))

    @property
    def _value(self) -> int:
        return int((self.data or {})["value"] or 0)

    @property
    def _names(self) -> dict[str, str]:
        issue = ir.async_get(self.hass).async_get_issue(DOMAIN, self.issue_id)
        return (issue and issue.translation_placeholders) or {}

    def _change(
        self,
        changes: Mapping[str, Any],
        *,
        title: str | UndefinedType = UNDEFINED,
        unique_id: str | UndefinedType = UNDEFINED,
    ) -> RepairsFlowResult:
        """Change the subentry, and end."""
        subentry = self._subentry
        if subentry is not None:
            self.hass.config_entries.async_update_subentry(
                self._entry,
                subentry,
                data={**subentry.data, **changes},
                title=title,
                unique_id=unique_id,
            )
        return self.async_create_entry(data={})

    def _remove(self) -> RepairsFlowResult:
        """Remove the subentry, and end."""
        subentry = self._subentry
        if subentry is not None:
            self.hass.config_entries.async_remove_subentry(
                self._entry, subentry.subentry_id
            )
        return self.async_create_entry(data={})

    def _ask(self, step_id: str, fields: dict[vol.Marker, Any]) -> RepairsFlowResult:
        return self.async_show_form(
            step_id=step_id,
            data_schema=vol.Schema(fields),
            description_placeholders=self._names,
        )

    def _offer(self, *steps: str) -> RepairsFlowResult:
        return self.async_show_menu(
            step_id="init",
            menu_options=list(steps),
            description_placeholders=self._names,
        )


class FewerSlots(_HouseholdRepair):
    """Count on as many answers at the same time as the server can write."""

    @override
    async def async_step_start(self) -> RepairsFlowResult:
        return await self.async_step_confirm()

    async def async_step_confirm(
        self, user_input: dict[str, Any] | None = None
    ) -> RepairsFlowResult:
        """Ask, then lower what was declared."""
        server = self._subentry
        if user_input is None or server is None:
            return self._ask("confirm", {})
        too_many = {
            key: self._value
            for key in (CONF_SLOTS, CONF_PATIENT_SLOTS)
            if (server.data.get(key) or 0) > self._value
        }
        return self._change(too_many)


class ContextCap(_HouseholdRepair):
    """Lower a limit to what the servers can hold."""

    @override
    async def async_step_start(self) -> RepairsFlowResult:
        return await self.async_step_confirm()

    async def async_step_confirm(
        self, user_input: dict[str, Any] | None = None
    ) -> RepairsFlowResult:
        """Ask, then lower it."""
        if user_input is None:
            return self._ask("confirm", {})
        return self._change({CONF_CONTEXT_TOKENS: self._value})


class PersonGone(_HouseholdRepair):
    """Give a member's share to another person, or remove the member."""

    @override
    async def async_step_start(self) -> RepairsFlowResult:
        others = persons_without_share(self.hass, self._entry)
        return self._offer(*["choose_person"] * bool(others), "remove_member")

    async def async_step_choose_person(
        self, user_input: dict[str, Any] | None = None
    ) -> RepairsFlowResult:
        """Choose who the member is from now on."""
        people = persons_without_share(self.hass, self._entry)
        if user_input is None:
            config = EntitySelectorConfig(
                domain=PERSON_DOMAIN, include_entities=list(people)
            )
            return self._ask(
                "choose_person", {vol.Required(_CONF_PERSON): EntitySelector(config)}
            )
        person = people.get(user_input[_CONF_PERSON])
        if person is None:
            return self.async_abort(reason="already_configured")
        return self._change(
            {CONF_PERSON_ID: person.person_id},
            title=person.name,
            unique_id=person.person_id,
        )

    async def async_step_remove_member(
        self, user_input: dict[str, Any] | None = None
    ) -> RepairsFlowResult:
        """Ask, then remove the member."""
        return self._ask("remove_member", {}) if user_input is None else self._remove()


class DeviceGone(_HouseholdRepair):
    """Let another device take the place of one that is gone, or remove it."""

    @override
    async def async_step_start(self) -> RepairsFlowResult:
        others = devices_to_add(self.hass, self._entry)
        return self._offer(*["choose_device"] * bool(others), "remove_device")

    async def async_step_choose_device(
        self, user_input: dict[str, Any] | None = None
    ) -> RepairsFlowResult:
        """Choose the device that is meant from now on."""
        devices = devices_to_add(self.hass, self._entry)
        if user_input is None:
            config = SelectSelectorConfig(
                options=devices, mode=SelectSelectorMode.DROPDOWN
            )
            return self._ask(
                "choose_device", {vol.Required(CONF_DEVICE_ID): SelectSelector(config)}
            )
        device_id = user_input[CONF_DEVICE_ID]
        device = dr.async_get(self.hass).async_get(device_id)
        if device is None or device_id not in {each["value"] for each in devices}:
            return self.async_abort(reason="already_configured")
        return self._change(
            {CONF_DEVICE_ID: device_id},
            title=device_name(device),
            unique_id=device_id_for(device_id),
        )

    async def async_step_remove_device(
        self, user_input: dict[str, Any] | None = None
    ) -> RepairsFlowResult:
        """Ask, then remove the device."""
        return self._ask("remove_device", {}) if user_input is None else self._remove()


class AgentGone(_HouseholdRepair):
    """Wrap another agent in place of one that is gone, or remove it."""

    @override
    async def async_step_start(self) -> RepairsFlowResult:
        others = agents_to_wrap(self.hass, self._entry)
        return self._offer(*["choose_agent"] * bool(others), "remove_agent")

    async def async_step_choose_agent(
        self, user_input: dict[str, Any] | None = None
    ) -> RepairsFlowResult:
        """Choose the agent that answers from now on, under the name of the old one."""
        agents = agents_to_wrap(self.hass, self._entry)
        if user_input is None:
            config = SelectSelectorConfig(
                options=agents, mode=SelectSelectorMode.DROPDOWN
            )
            return self._ask(
                "choose_agent", {vol.Required(CONF_AGENT): SelectSelector(config)}
            )
        agent = user_input[CONF_AGENT]
        if agent not in {each["value"] for each in agents}:
            return self.async_abort(reason="already_configured")
        return self._change({CONF_AGENT: agent}, unique_id=agent_id_for(agent))

    async def async_step_remove_agent(
        self, user_input: dict[str, Any] | None = None
    ) -> RepairsFlowResult:
        """Ask, then remove the wrapped agent."""
        return self._ask("remove_agent", {}) if user_input is None else self._remove()


class _IgnorableRepair(_HouseholdRepair):
    """A dialog about something that may be all right."""

    async def async_step_ignore(
        self, _user_input: dict[str, Any] | None = None
    ) -> RepairsFlowResult:
        """Hear no more of it."""
        ir.async_ignore_issue(self.hass, DOMAIN, self.issue_id, ignore=True)
        return self.async_abort(reason="ignored", description_placeholders=self._names)


class Bypassed(_IgnorableRepair):
    """Say what to do about others who use a server, or hear no more of it."""

    @override
    async def async_step_start(self) -> RepairsFlowResult:
        return self._offer("moved", "ignore")

    async def async_step_moved(
        self, user_input: dict[str, Any] | None = None
    ) -> RepairsFlowResult:
        """Explain how to let others use the household; it is looked at anew then."""
        if user_input is None:
            return self._ask("moved", {})
        return self.async_create_entry(data={})


class KeyUnused(_IgnorableRepair):
    """Remove a client that nothing uses."""

    @override
    async def async_step_start(self) -> RepairsFlowResult:
        return self._offer("remove_client", "ignore")

    async def async_step_remove_client(
        self, user_input: dict[str, Any] | None = None
    ) -> RepairsFlowResult:
        """Ask, then remove the client."""
        return self._ask("remove_client", {}) if user_input is None else self._remove()


class KeyShared(_IgnorableRepair):
    """Say how each program gets a key of its own."""

    @override
    async def async_step_start(self) -> RepairsFlowResult:
        return self._offer("separate", "ignore")

    async def async_step_separate(
        self, user_input: dict[str, Any] | None = None
    ) -> RepairsFlowResult:
        """Explain it; it is looked at anew then."""
        if user_input is None:
            return self._ask("separate", {})
        return self.async_create_entry(data={})


_FLOWS: Mapping[IssueKind, type[_HouseholdRepair]] = {
    IssueKind.FEWER_SLOTS: FewerSlots,
    IssueKind.CONTEXT_CAP: ContextCap,
    IssueKind.PERSON_GONE: PersonGone,
    IssueKind.DEVICE_GONE: DeviceGone,
    IssueKind.AGENT_GONE: AgentGone,
    IssueKind.BYPASSED: Bypassed,
    IssueKind.KEY_UNUSED: KeyUnused,
    IssueKind.KEY_SHARED: KeyShared,
}
