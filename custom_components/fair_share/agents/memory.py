"""What was sent before in a conversation, so that later requests repeat it.

A server keeps the beginning of a prompt in its cache. A request that begins exactly
like the one before it is answered sooner and costs less.
"""

from dataclasses import dataclass, field

from homeassistant.util.limited_size_dict import LimitedSizeDict

_CONVERSATIONS = 100


@dataclass(slots=True)
class Sent:
    """What was sent in one conversation.

    ``notes`` holds the note that went with each message of the user, by its number.
    ``first_turn`` is the oldest turn that is still sent.
    """

    notes: dict[int, str] = field(default_factory=dict)
    first_turn: int = 0


class ConversationMemory:
    """Remembers the latest conversations of an agent."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._sent: LimitedSizeDict[str, Sent] = LimitedSizeDict(
            size_limit=_CONVERSATIONS
        )

    def of(self, conversation_id: str, *, is_new: bool) -> Sent:
        """Return what is known of a conversation; nothing of a new one."""
        sent = Sent() if is_new else self._sent.pop(conversation_id, Sent())
        self._sent[conversation_id] = sent
        return sent
