"""Keys of the gateway's clients: made once, and then known by their hash only."""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from secrets import token_urlsafe

from .clients import ClientConfig

PREFIX = "fs-"
_KEY_BYTES = 32
_HINT_LENGTH = 4


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was just made: to be shown once, and what is kept of it."""

    key: str
    key_hash: str
    hint: str


def new_key() -> NewKey:
    """Make a key that nobody can guess."""
    key = PREFIX + token_urlsafe(_KEY_BYTES)
    return NewKey(key, hash_of(key), key[-_HINT_LENGTH:])


def hash_of(key: str) -> str:
    """Return what is kept of a key.

    One round of SHA-256 is enough: unlike a password, 256 random bits can't be found by
    trying, however fast.
    """
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def client_of_key(key: str, clients: Iterable[ClientConfig]) -> ClientConfig | None:
    """Return whose key it is.

    Takes as long whichever it is: it must not tell how near somebody came.
    """
    told, found = hash_of(key), None
    for client in clients:
        if compare_digest(told.encode(), client.key_hash.encode()):
            found = client
    return found
