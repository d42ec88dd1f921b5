"""Clients of the gateway: programs of the house that ask with a key of their own."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from homeassistant.config_entries import ConfigSubentry

from ..admission.model import NodeSpec, Workload
from ..const import (
    CONF_FROM_OUTSIDE,
    CONF_KEY_HASH,
    CONF_KEY_HINT,
    CONF_MEMBER,
    CONF_REQUESTS_PER_MINUTE,
    CONF_WORKLOAD,
    SHARED_ID,
)
from .asker import Asker, IdentityRule
from .subentries import DeviceConfig, MemberConfig, node_spec, stored_of


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """A program that asks through the gateway.

    ``member_id`` is whose share it uses; ``device_subentry_id`` names the member's
    device that it belongs to, if it does. ``workload`` is what it asks for unless it
    asks for something less urgent. ``key_hash`` is all that is kept of its key, with a
    ``key_hint`` to tell it from others. ``requests_per_minute`` is its pace, ``None``
    for any.
    """

    client_id: str
    name: str
    member_id: str
    device_subentry_id: str | None
    workload: Workload
    key_hash: str
    key_hint: str
    requests_per_minute: int | None
    from_outside: bool
    spec: NodeSpec

    @classmethod
    def from_subentry(
        cls,
        subentry: ConfigSubentry,
        members: Mapping[str, MemberConfig],
        devices: Mapping[str, DeviceConfig],
    ) -> Self:
        """Read a subentry of type ``client``.

        One whose member or device is gone belongs to nobody in particular.
        """
        stored = stored_of(subentry)
        owner = subentry.data.get(CONF_MEMBER, SHARED_ID)
        device = devices.get(owner)
        if device is not None:
            member_id = device.member_id
        else:
            member_id = owner = owner if owner in members else SHARED_ID
        return cls(
            client_id=subentry.subentry_id,
            name=subentry.title,
            member_id=member_id,
            device_subentry_id=None if device is None else device.subentry_id,
            workload=Workload(stored.one_of(CONF_WORKLOAD, Workload, Workload.CHAT)),
            key_hash=str(subentry.data.get(CONF_KEY_HASH, "")),
            key_hint=str(subentry.data.get(CONF_KEY_HINT, "")),
            requests_per_minute=stored.whole(CONF_REQUESTS_PER_MINUTE, None, least=1),
            from_outside=subentry.data.get(CONF_FROM_OUTSIDE) is True,
            spec=node_spec(subentry, owner),
        )

    @property
    def asker(self) -> Asker:
        """Who is charged for what it asks."""
        return Asker(
            self.member_id,
            self.client_id,
            self.device_subentry_id,
            self.workload,
            IdentityRule.CLIENT,
        )
