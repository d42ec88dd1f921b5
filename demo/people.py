"""Who lives in the demo's household, and their logins."""

from dataclasses import dataclass

import aiohttp

from .api import Api, Connection, Json, request_json
from .errors import UnknownMemberError

PASSWORD = "fair-share"  # noqa: S105 - of a Home Assistant that only this machine can reach


@dataclass(frozen=True, slots=True)
class Person:
    """A user of Home Assistant. Without a person entity nobody knows who it is."""

    name: str
    has_person_entity: bool = True

    @property
    def username(self) -> str:
        """The name to log in with."""
        return self.name.lower()


PARENT = Person("Parent")
CHILD = Person("Child")
GUEST = Person("Guest", has_person_entity=False)
PEOPLE = (PARENT, CHILD, GUEST)


def find_person(name: str) -> Person:
    """Return the person of this name. Raises ``UnknownMemberError``."""
    for person in PEOPLE:
        if person.username == name.lower():
            return person
    known = ", ".join(person.username for person in PEOPLE)
    raise UnknownMemberError(f"There is no member {name!r}. The members are: {known}.")


async def create_owner(session: aiohttp.ClientSession, url: str, owner: Person) -> None:
    """Create the first user, who owns Home Assistant, with a person entity."""
    await request_json(
        session,
        "POST",
        f"{url}/api/onboarding/users",
        json={
            "name": owner.name,
            "username": owner.username,
            "password": PASSWORD,
            "client_id": f"{url}/",
            "language": "en",
        },
    )


async def create_user(connection: Connection, person: Person) -> None:
    """Create a further user, with a person entity if it is to have one."""
    answer = await connection.command(
        "config/auth/create", name=person.name, group_ids=["system-users"]
    )
    user_id = answer["user"]["id"]
    await connection.command(
        "config/auth_provider/homeassistant/create",
        user_id=user_id,
        username=person.username,
        password=PASSWORD,
    )
    if person.has_person_entity:
        await connection.command("person/create", name=person.name, user_id=user_id)


async def log_in(session: aiohttp.ClientSession, url: str, person: Person) -> Api:
    """Log in as this person, as the frontend does."""
    client_id = f"{url}/"
    flow = await request_json(
        session,
        "POST",
        f"{url}/auth/login_flow",
        json={
            "client_id": client_id,
            "handler": ["homeassistant", None],
            "redirect_uri": client_id,
        },
    )
    done = await request_json(
        session,
        "POST",
        f"{url}/auth/login_flow/{flow['flow_id']}",
        json={
            "client_id": client_id,
            "username": person.username,
            "password": PASSWORD,
        },
    )
    token: Json = await request_json(
        session,
        "POST",
        f"{url}/auth/token",
        data={
            "client_id": client_id,
            "grant_type": "authorization_code",
            "code": done["result"],
        },
    )
    return Api(session, url, token["access_token"])
