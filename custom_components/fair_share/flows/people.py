"""The persons and users of Home Assistant, as dialogs offer them."""

from dataclasses import dataclass

from homeassistant.config_entries import ConfigEntry
from homeassistant.core import HomeAssistant
from homeassistant.helpers import entity_registry as er
from homeassistant.helpers.selector import SelectOptionDict

from ..const import CONF_PERSON_ID, CONF_USER_IDS, CONF_WEIGHT, SUBENTRY_MEMBER

PERSON_DOMAIN = "person"


@dataclass(frozen=True, slots=True)
class Person:
    """A person entity; ``person_id`` stays the same when it is renamed."""

    person_id: str
    entity_id: str
    name: str
    user_id: str | None


def persons(hass: HomeAssistant) -> dict[str, Person]:
    """Return all persons by their entity id."""
    registry = er.async_get(hass)
    return {
        state.entity_id: Person(
            entry.unique_id,
            state.entity_id,
            state.name,
            state.attributes.get("user_id"),
        )
        for state in hass.states.async_all(PERSON_DOMAIN)
        if (entry := registry.async_get(state.entity_id)) is not None
    }


def persons_without_share(
    hass: HomeAssistant, household: ConfigEntry
) -> dict[str, Person]:
    """Return the persons who are not yet members, by their entity id."""
    members = {m.unique_id for m in household.get_subentries_of_type(SUBENTRY_MEMBER)}
    return {
        entity_id: person
        for entity_id, person in persons(hass).items()
        if person.person_id not in members
    }


def default_member(person: Person) -> dict[str, object]:
    """Return the data of a member with an ordinary share."""
    return {CONF_PERSON_ID: person.person_id, CONF_USER_IDS: [], CONF_WEIGHT: 1.0}


async def async_free_users(
    hass: HomeAssistant, household: ConfigEntry, person_id: str | None
) -> list[SelectOptionDict]:
    """Return the users who belong to nobody, or to the member with this id by hand."""
    taken = {person.user_id for person in persons(hass).values()}
    for member in household.get_subentries_of_type(SUBENTRY_MEMBER):
        if member.unique_id != person_id:
            taken.update(member.data[CONF_USER_IDS])
    return [
        SelectOptionDict(value=user.id, label=user.name or user.id)
        for user in await hass.auth.async_get_users()
        if user.is_active and not user.system_generated and user.id not in taken
    ]
