"""Which server probably still has a conversation's prompt in its cache."""

from collections import OrderedDict
from dataclasses import dataclass

_CONVERSATIONS = 64


@dataclass(frozen=True, slots=True)
class Prefix:
    """The server that last answered a conversation, and the tokens it holds of it."""

    server_id: str
    tokens: int


class PrefixMemory:
    """Remembers the latest conversations; older ones are taken as evicted."""

    def __init__(self) -> None:
        """Start without any."""
        self._prefixes: OrderedDict[str, Prefix] = OrderedDict()

    def get(self, conversation_id: str | None) -> Prefix | None:
        """Return what is known of a conversation."""
        return None if conversation_id is None else self._prefixes.get(conversation_id)

    def put(self, conversation_id: str | None, prefix: Prefix) -> None:
        """Note where a conversation was answered."""
        if conversation_id is None:
            return
        self._prefixes[conversation_id] = prefix
        self._prefixes.move_to_end(conversation_id)
        while len(self._prefixes) > _CONVERSATIONS:
            self._prefixes.popitem(last=False)
