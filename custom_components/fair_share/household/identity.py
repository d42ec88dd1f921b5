"""Who is asking, and who is therefore charged."""

from homeassistant.components.person.const import (
    DOMAIN as PERSON_DOMAIN,
    PersonEntityStateAttribute,
)
from homeassistant.core import Context, HomeAssistant, callback
from homeassistant.helpers import entity_registry as er

from ..admission.model import Workload
from ..const import GUEST_ID, SHARED_ID
from .asker import Asker, IdentityRule
from .contexts import AutomationContexts
from .registry import Registry, automation_id, direct_id
from .subentries import DeviceConfig, MemberConfig

__all__ = ["Asker", "IdentityResolver", "IdentityRule"]


class IdentityResolver:
    """Finds out who asks, by what Home Assistant vouches for; never guesses.

    In this order: a satellite by its device and never by a user; the user of the
    context, by their person or as a further user of a member, else as a guest; the
    device; the automation or script that the context belongs to; else the guest.

    The WebSocket connection is not looked at: it stays set in automations which a call
    over it has triggered, and would charge them to whoever clicked.
    """

    def __init__(self, hass: HomeAssistant, registry: Registry) -> None:
        """Resolve among the members and devices of this registry."""
        self._hass = hass
        self._registry = registry
        self._contexts = AutomationContexts(hass)
        self.async_listen = self._contexts.async_listen

    @callback
    def resolve(
        self, context: Context, device_id: str | None, satellite_id: str | None
    ) -> Asker:
        """Return who asks.

        ``device_id`` is the device registry's, ``satellite_id`` the entity id of an
        Assist satellite; both as the conversation input has them.
        """
        if satellite_id:
            return self._satellite(device_id or self._device_of(satellite_id))
        if context.user_id:
            return self._user(context.user_id, device_id)
        if device := self._device(device_id):
            return _by_device(device)
        if entity_id := self._contexts.entity_for(context.id):
            return Asker(
                SHARED_ID,
                automation_id(entity_id),
                None,
                Workload.BACKGROUND,
                IdentityRule.AUTOMATION,
            )
        return _guest(None)

    def _satellite(self, device_id: str | None) -> Asker:
        # A satellite's context can name a user (VoIP: a system user; after an
        # announcement: whoever made it), but nobody knows who spoke.
        if device := self._device(device_id):
            return _by_device(device)
        return _guest(Workload.VOICE)

    def _user(self, user_id: str, device_id: str | None) -> Asker:
        if (member := self._member(user_id)) is None:
            return _guest(None)
        # The client itself says which device it is: it may refine who is logged in,
        # not overrule it.
        device = self._device(device_id)
        if device and device.member_id == member.member_id:
            return _by_device(device)
        return Asker(
            member.member_id,
            direct_id(member.member_id),
            None,
            None,
            IdentityRule.USER,
        )

    def _member(self, user_id: str) -> MemberConfig | None:
        person_id = self._person_of(user_id)
        members = self._registry.members.values()
        return next(
            (m for m in members if person_id == m.person_id or user_id in m.user_ids),
            None,
        )

    def _person_of(self, user_id: str) -> str | None:
        # The state follows every change of persons and users by itself.
        return next(
            (
                state.attributes.get(PersonEntityStateAttribute.ID)
                for state in self._hass.states.async_all(PERSON_DOMAIN)
                if state.attributes.get(PersonEntityStateAttribute.USER_ID) == user_id
            ),
            None,
        )

    def _device(self, device_id: str | None) -> DeviceConfig | None:
        return self._registry.device(device_id) if device_id else None

    def _device_of(self, entity_id: str) -> str | None:
        entity = er.async_get(self._hass).async_get(entity_id)
        return entity.device_id if entity else None


def _by_device(device: DeviceConfig) -> Asker:
    return Asker(
        device.member_id,
        device.subentry_id,
        device.subentry_id,
        device.workload,
        IdentityRule.DEVICE,
    )


def _guest(workload: Workload | None) -> Asker:
    return Asker(GUEST_ID, direct_id(GUEST_ID), None, workload, IdentityRule.GUEST)
