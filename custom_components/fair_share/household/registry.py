"""The share tree as the household configured it: who is in it, and their names."""

from collections.abc import Iterable
from dataclasses import dataclass

from homeassistant.config_entries import ConfigEntry
from homeassistant.core import HomeAssistant
from homeassistant.helpers import device_registry as dr

from ..admission.model import Caps, NodeSpec, RequestClass, Workload
from ..const import (
    DOMAIN,
    GUEST_ID,
    GUEST_PREFIX,
    SHARED_ID,
    SUBENTRY_CLIENT,
    SUBENTRY_DEVICE,
    SUBENTRY_MEMBER,
)
from .asker import Asker, IdentityRule
from .clients import ClientConfig
from .stored import Stored
from .subentries import DeviceConfig, MemberConfig, quota_of, weight_of

BUILT_IN_IDS = (GUEST_ID, SHARED_ID)


@dataclass(frozen=True, slots=True)
class RegistryChange:
    """What a change of the configuration means for the share tree.

    ``added`` and ``changed`` have parents before children, ``removed`` children
    before parents. Only configured nodes are named, not what is created lazily below
    them (classes, automations).
    """

    added: tuple[NodeSpec, ...]
    changed: tuple[NodeSpec, ...]
    removed: tuple[str, ...]


class Registry:
    """Members, devices and clients of a household, and the nodes of the tree they make.

    Reads the config entry once at the start and again with every ``apply``, so that
    its answers stay consistent between two of them.
    """

    def __init__(self, hass: HomeAssistant, entry: ConfigEntry) -> None:
        """Read the entry as it is now."""
        self._hass = hass
        self._entry_id = entry.entry_id
        self.members: dict[str, MemberConfig] = {}
        self.devices: dict[str, DeviceConfig] = {}
        self.clients: dict[str, ClientConfig] = {}
        self._nodes: dict[str, NodeSpec] = {}
        self._read(entry)

    def nodes(self) -> tuple[NodeSpec, ...]:
        """Return all configured nodes but the root, parents before children."""
        return tuple(self._nodes.values())

    def apply(self, entry: ConfigEntry) -> RegistryChange:
        """Read the entry again and return what is different from before."""
        old = self._nodes
        self._read(entry)
        return RegistryChange(
            added=tuple(s for i, s in self._nodes.items() if i not in old),
            changed=tuple(
                s for i, s in self._nodes.items() if i in old and old[i] != s
            ),
            removed=tuple(i for i in reversed(old) if i not in self._nodes),
        )

    def source_spec(self, asker: Asker) -> NodeSpec:
        """Return the node that asks; those of automations are new to the tree at first.

        Raises ``KeyError`` when it has been removed from the household since.
        """
        if asker.rule in (IdentityRule.AUTOMATION, IdentityRule.HOUSE):
            return NodeSpec(asker.source_id, asker.member_id)
        return self._nodes[asker.source_id]

    def class_for(self, asker: Asker, workload: Workload) -> RequestClass:
        """Return the leaf for this workload of the asker."""
        return RequestClass(f"{asker.source_id}/{workload}", asker.source_id, workload)

    def caps_for(self, asker: Asker) -> Caps:
        """Return the tightest limits of the member and of what of theirs asks."""
        ids = {asker.member_id, asker.device_subentry_id, asker.source_id}
        caps = [self._nodes[i].caps for i in ids if i in self._nodes]
        return Caps(
            context_tokens=_tightest(each.context_tokens for each in caps),
            output_tokens=_tightest(each.output_tokens for each in caps),
            in_flight=_tightest(each.in_flight for each in caps),
            queued=_tightest(each.queued for each in caps),
        )

    def spec(self, node_id: str) -> NodeSpec:
        """Return what was configured of a node. Raises ``KeyError``."""
        return self._nodes[node_id]

    def has_direct(self, member_id: str) -> bool:
        """Whether a member asks also without a device."""
        return direct_id(member_id) in self._nodes

    def member_ids(self) -> tuple[str, ...]:
        """Return the members, with those that every household has."""
        return (*BUILT_IN_IDS, *self.members)

    def device(self, device_id: str) -> DeviceConfig | None:
        """Return what the household says about a device of the device registry."""
        return next(
            (d for d in self.devices.values() if d.device_id == device_id), None
        )

    def name(self, node_id: str) -> str:
        """Return the name people know a node by, its id if it has none."""
        if config := (
            self.members.get(node_id)
            or self.devices.get(node_id)
            or self.clients.get(node_id)
        ):
            return config.name
        owner, _, part = node_id.partition("/")
        if state := self._hass.states.get(part):
            return state.name
        if owner in BUILT_IN_IDS and part in ("", _DIRECT):
            return self._built_in_name(owner)
        if part == _DIRECT and (member := self.members.get(owner)):
            return member.name
        return node_id

    def _built_in_name(self, node_id: str) -> str:
        # The device registry holds the name in the household's language, or its own.
        devices = dr.async_get(self._hass)
        identifier = (DOMAIN, device_identifier(self._entry_id, node_id))
        device = devices.async_get_device_by_identifier(identifier, self._entry_id)
        return (device and (device.name_by_user or device.name)) or node_id

    def _read(self, entry: ConfigEntry) -> None:
        subentries = entry.subentries.values()
        self.members = {
            s.subentry_id: MemberConfig.from_subentry(s)
            for s in subentries
            if s.subentry_type == SUBENTRY_MEMBER
        }
        self.devices = {
            s.subentry_id: DeviceConfig.from_subentry(s, self.members)
            for s in subentries
            if s.subentry_type == SUBENTRY_DEVICE
        }
        self.clients = {
            s.subentry_id: ClientConfig.from_subentry(s, self.members, self.devices)
            for s in subentries
            if s.subentry_type == SUBENTRY_CLIENT
        }
        members = [*_built_ins(entry), *(m.spec for m in self.members.values())]
        direct = (NodeSpec(direct_id(i), i) for i in (GUEST_ID, *self.members))
        devices = (d.spec for d in self.devices.values())
        clients = (c.spec for c in self.clients.values())
        self._nodes = _by_id([*members, *direct, *devices, *clients])


_DIRECT = "direct"


def direct_id(member_id: str) -> str:
    """Return the id of the node for what a member asks without a device."""
    return f"{member_id}/{_DIRECT}"


def automation_id(entity_id: str) -> str:
    """Return the id of the node for what an automation or script asks."""
    return f"{SHARED_ID}/{entity_id}"


def device_identifier(entry_id: str, node_id: str) -> str:
    """Return the identifier of a node's device, unique among all entries."""
    return f"{entry_id}_{node_id}" if node_id in BUILT_IN_IDS else node_id


def _built_ins(entry: ConfigEntry) -> tuple[NodeSpec, NodeSpec]:
    stored = Stored(entry.options, "options")
    guest = NodeSpec(
        GUEST_ID,
        weight=weight_of(stored, GUEST_PREFIX),
        quota=quota_of(stored, GUEST_PREFIX),
    )
    return guest, NodeSpec(SHARED_ID)


def _by_id(specs: Iterable[NodeSpec]) -> dict[str, NodeSpec]:
    return {spec.node_id: spec for spec in specs}


def _tightest(limits: Iterable[int | None]) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)
