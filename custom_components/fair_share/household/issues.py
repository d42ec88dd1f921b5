"""What is wrong in the household that people can put right: Home Assistant's repairs.

Each is raised when the household's state says so, and taken back when it is over. What
can't be known for now, as while a server is away, is neither.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from homeassistant.config_entries import ConfigSubentry
from homeassistant.const import CONF_DEVICE_ID, EntityStateAttribute, Platform
from homeassistant.core import CALLBACK_TYPE, Event, HomeAssistant, callback
from homeassistant.helpers import (
    device_registry as dr,
    entity_registry as er,
    issue_registry as ir,
)
from homeassistant.helpers.event import async_track_time_interval
from homeassistant.helpers.start import async_at_started

from ..admission.model import ROOT_ID
from ..const import (
    CONF_AGENT,
    CONF_CONTEXT_TOKENS,
    CONF_PATIENT_SLOTS,
    CONF_PERSON_ID,
    CONF_SLOTS,
    DOMAIN,
    SUBENTRY_DEVICE,
    SUBENTRY_MEMBER,
    SUBENTRY_SERVER,
    SUBENTRY_WRAPPED_AGENT,
)
from .bypass import Bypass

if TYPE_CHECKING:
    from .runtime import Household

_PERSON_DOMAIN = "person"
_ENTITIES = (f"{_PERSON_DOMAIN}.", f"{Platform.CONVERSATION}.")
_LOOK_EVERY = timedelta(minutes=1)
_HELP = "https://github.com/fair-share/fair-share/blob/main/docs/troubleshooting.md"


class IssueKind(StrEnum):
    """What can be wrong."""

    FEWER_SLOTS = "fewer_slots"
    CONTEXT_CAP = "context_cap"
    PERSON_GONE = "person_gone"
    DEVICE_GONE = "device_gone"
    AGENT_GONE = "agent_gone"
    BYPASSED = "bypassed"
    KEY_UNUSED = "key_unused"
    KEY_SHARED = "key_shared"


@dataclass(frozen=True, slots=True)
class HouseIssue:
    """Something that is wrong with what one subentry says.

    ``names`` fill the text. ``value`` is what the subentry should say instead, where
    that is a number.
    """

    kind: IssueKind
    subentry_id: str
    names: dict[str, str]
    value: int | None = None

    @property
    def issue_id(self) -> str:
        """What Home Assistant knows it by."""
        return _issue_id(self.kind, self.subentry_id)


class IssueWatch:
    """Raises what is wrong in a household, and takes it back."""

    def __init__(self, hass: HomeAssistant, household: Household) -> None:
        """Look at nothing yet."""
        self._hass = hass
        self._household = household
        self._entry = household.entry
        self._bypasses: dict[str, Bypass] = {}
        self._bypassed: set[str] = set()

    @callback
    def async_start(self) -> CALLBACK_TYPE:
        """Look now and whenever something may have changed; return what ends it."""
        bus, household = self._hass.bus, self._household
        unsubs = [
            household.updates.async_listen((ROOT_ID,), self.async_look),
            async_track_time_interval(self._hass, self._async_tick, _LOOK_EVERY),
            bus.async_listen(er.EVENT_ENTITY_REGISTRY_UPDATED, self._async_entity),
            bus.async_listen(dr.EVENT_DEVICE_REGISTRY_UPDATED, self._async_device),
            async_at_started(self._hass, self._async_started),
        ]
        self.async_look()

        @callback
        def stop() -> None:
            for unsub in unsubs:
                unsub()
            # Otherwise they stay until the next start has looked: what people want to
            # hear no more of is remembered with them.
            if self._entry.disabled_by:
                async_forget_issues(self._hass)

        return stop

    @callback
    def async_look(self) -> None:
        """Raise what is wrong now, and take back what is not any more."""
        self._note_bypasses()
        found = {issue.issue_id: issue for issue in self._found()}
        for issue in found.values():
            self._raise(issue)
        kept = found.keys() | set(self._unsure())
        for each in _raised(self._hass):
            # Whoever wants to hear no more of what comes and goes does not want to hear
            # of it again next time.
            ignored = each.dismissed_version and self._comes_and_goes(each.issue_id)
            if each.issue_id not in kept and not ignored:
                ir.async_delete_issue(self._hass, DOMAIN, each.issue_id)

    @callback
    def _async_tick(self, _now: datetime) -> None:
        self.async_look()

    @callback
    def _async_started(self, _hass: HomeAssistant) -> None:
        self.async_look()

    @callback
    def _async_entity(self, event: Event[er.EventEntityRegistryUpdatedData]) -> None:
        if event.data["entity_id"].startswith(_ENTITIES):
            self.async_look()

    @callback
    def _async_device(self, event: Event[dr.EventDeviceRegistryUpdatedData]) -> None:
        if event.data["action"] != "update":
            self.async_look()

    def _raise(self, issue: HouseIssue) -> None:
        data: dict[str, str | int | float | None] = {
            "kind": issue.kind.value,
            "entry_id": self._entry.entry_id,
            "subentry_id": issue.subentry_id,
            "value": issue.value,
        }
        ir.async_create_issue(
            self._hass,
            DOMAIN,
            issue.issue_id,
            data=data,
            is_fixable=True,
            learn_more_url=_HELP,
            severity=ir.IssueSeverity.WARNING,
            translation_key=issue.kind.value,
            translation_placeholders=issue.names,
        )

    def _found(self) -> Iterator[HouseIssue]:
        for server in self._of_type(SUBENTRY_SERVER):
            yield from self._fewer_slots(server)
            if self._bypass(server.subentry_id).too_long:
                self._bypassed.add(server.subentry_id)
                names = {"server": server.title}
                yield HouseIssue(IssueKind.BYPASSED, server.subentry_id, names)
        for part in (*self._of_type(SUBENTRY_MEMBER), *self._of_type(SUBENTRY_DEVICE)):
            yield from self._context_cap(part)
        yield from self._gone()
        yield from self._keys()

    def _gone(self) -> Iterator[HouseIssue]:
        """Yield what the household names and Home Assistant has no more."""
        if self._knows_persons:
            for member in self._of_type(SUBENTRY_MEMBER):
                if not self._has_person(member.data[CONF_PERSON_ID]):
                    names = {"member": member.title}
                    yield HouseIssue(IssueKind.PERSON_GONE, member.subentry_id, names)
        devices = dr.async_get(self._hass)
        for device in self._of_type(SUBENTRY_DEVICE):
            if devices.async_get(device.data[CONF_DEVICE_ID]) is None:
                names = {"device": device.title}
                yield HouseIssue(IssueKind.DEVICE_GONE, device.subentry_id, names)
        agents = er.async_get(self._hass).entities
        for wrapped in self._of_type(SUBENTRY_WRAPPED_AGENT):
            if agents.get_entry(wrapped.data[CONF_AGENT]) is None:
                names = {"agent": wrapped.title}
                yield HouseIssue(IssueKind.AGENT_GONE, wrapped.subentry_id, names)

    def _fewer_slots(self, server: ConfigSubentry) -> Iterator[HouseIssue]:
        slots = self._slots(server.subentry_id)
        wanted = (server.data.get(CONF_SLOTS), server.data.get(CONF_PATIENT_SLOTS))
        declared = int(max((each for each in wanted if each), default=0))
        if slots is not None and declared > slots:
            names = {
                "server": server.title,
                "declared": str(declared),
                "slots": str(slots),
            }
            yield HouseIssue(
                IssueKind.FEWER_SLOTS, server.subentry_id, names, value=slots
            )

    def _keys(self) -> Iterator[HouseIssue]:
        use = self._household.client_use
        for client in self._household.registry.clients.values():
            names = {"client": client.name}
            if use.is_unused(client.client_id):
                yield HouseIssue(IssueKind.KEY_UNUSED, client.client_id, names)
            if use.is_shared(client.client_id):
                yield HouseIssue(IssueKind.KEY_SHARED, client.client_id, names)

    def _context_cap(self, part: ConfigSubentry) -> Iterator[HouseIssue]:
        cap, longest = part.data.get(CONF_CONTEXT_TOKENS), self._longest_context()
        if cap is not None and longest is not None and cap > longest:
            names = {
                "name": part.title,
                "cap": str(int(cap)),
                "context": str(longest),
            }
            yield HouseIssue(
                IssueKind.CONTEXT_CAP, part.subentry_id, names, value=longest
            )

    def _unsure(self) -> Iterator[str]:
        """Yield the ids of what may be wrong or not: that can't be known for now."""
        for server in self._of_type(SUBENTRY_SERVER):
            if self._slots(server.subentry_id) is None:
                yield _issue_id(IssueKind.FEWER_SLOTS, server.subentry_id)
        if self._longest_context() is None:
            for kind in (SUBENTRY_MEMBER, SUBENTRY_DEVICE):
                for part in self._of_type(kind):
                    yield _issue_id(IssueKind.CONTEXT_CAP, part.subentry_id)
        if not self._knows_persons:
            for member in self._of_type(SUBENTRY_MEMBER):
                yield _issue_id(IssueKind.PERSON_GONE, member.subentry_id)

    def _of_type(self, kind: str) -> list[ConfigSubentry]:
        return list(self._entry.get_subentries_of_type(kind))

    def _slots(self, server_id: str) -> int | None:
        """Return what the server said of itself when it was last seen."""
        views = self._household.servers.statuses()
        return next(
            (
                view.capabilities.slots
                for view in views
                if view.server_id == server_id and view.capabilities
            ),
            None,
        )

    def _longest_context(self) -> int | None:
        """Return the longest context of all servers, ``None`` if one was never seen."""
        capacities = self._household.servers.capacities()
        if len(capacities) < len(self._of_type(SUBENTRY_SERVER)):
            return None
        return max((each.context_tokens for each in capacities), default=None)

    @property
    def _knows_persons(self) -> bool:
        """Whether who is not there is gone: not before everything has started."""
        loaded = _PERSON_DOMAIN in self._hass.config.components
        return loaded and self._hass.is_running

    def _has_person(self, person_id: str) -> bool:
        registry = er.async_get(self._hass)
        entity_id = registry.async_get_entity_id(
            _PERSON_DOMAIN, _PERSON_DOMAIN, person_id
        )
        if entity_id is None:
            return False
        # A person that was deleted from a file leaves an entity that nothing fills.
        state = self._hass.states.get(entity_id)
        return state is None or not state.attributes.get(EntityStateAttribute.RESTORED)

    def _bypass(self, server_id: str) -> Bypass:
        return self._bypasses.setdefault(server_id, Bypass())

    def _comes_and_goes(self, issue_id: str) -> bool:
        servers = (each.subentry_id for each in self._of_type(SUBENTRY_SERVER))
        clients = self._household.registry.clients
        return issue_id in {
            *(_issue_id(IssueKind.BYPASSED, server_id) for server_id in servers),
            *(_issue_id(IssueKind.KEY_SHARED, client_id) for client_id in clients),
        }

    def _note_bypasses(self) -> None:
        issues = ir.async_get(self._hass)
        now = self._household.queue.clock.monotonic()
        for view in self._household.servers.statuses():
            issue_id = _issue_id(IssueKind.BYPASSED, view.server_id)
            raised = issues.async_get_issue(DOMAIN, issue_id)
            if view.server_id in self._bypassed and raised is None:
                # People say that they have seen to it: it has to go on for a while
                # more before it is worth a word again.
                self._bypasses.pop(view.server_id, None)
                self._bypassed.discard(view.server_id)
            self._bypass(view.server_id).note(now, used=bool(view.foreign))


@callback
def async_forget_issues(hass: HomeAssistant) -> None:
    """Take everything back, as when the household is deleted."""
    for issue in _raised(hass):
        ir.async_delete_issue(hass, DOMAIN, issue.issue_id)


def _raised(hass: HomeAssistant) -> list[ir.IssueEntry]:
    issues = ir.async_get(hass).issues
    return [issue for (domain, _), issue in issues.items() if domain == DOMAIN]


def _issue_id(kind: IssueKind, subentry_id: str) -> str:
    return f"{kind}_{subentry_id}"
