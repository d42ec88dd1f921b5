"""What servers probably still hold of the prompts that they have read.

A prompt begins like the one before it in its conversation, or like all others of its
agent. A server that still has such a beginning in its cache answers sooner, and what it
need not read is cheaper. Nothing tells what a server has thrown out: that is presumed
when it has worked on more than it can hold since, and corrected by what it reports.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..admission.model import ServerCapacity

_CONVERSATIONS = 64
_OPENINGS = 16
_FOUND_AGAIN = 0.5
"""So much of a prefix has to be found in the cache for it to have been there."""

_STEP = 2.0
"""A server keeps prefixes longer, or less long, than was presumed by this factor."""

_LEAST_KEPT = 1 / 8
"""Of what a server can hold: what is not found may also never have been alike."""


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer that ended: where, to what, and what the server said it cost."""

    server_id: str
    conversation_id: str | None
    opening_id: str | None
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int


@dataclass(slots=True)
class _Held:
    """A prefix on a server: its length, and the work of the server when it was used."""

    tokens: int
    used_at: int


@dataclass(slots=True)
class _Cache:
    """What one server holds.

    ``holds`` is what it can at once, in tokens, and ``work`` counts those that it has
    read and written; what was not used for ``keeps`` of them is presumed thrown out.
    """

    holds: int
    keeps: float
    work: int = 0
    conversations: OrderedDict[str, _Held] = field(default_factory=OrderedDict)
    openings: OrderedDict[str, _Held] = field(default_factory=OrderedDict)

    def tokens(self, held: _Held | None) -> int:
        if held is None or self.work - held.used_at > self.keeps:
            return 0
        return held.tokens

    def learn(self, held: _Held, found: int) -> None:
        """Correct for how long prefixes are kept, by whether one was found again."""
        unused = self.work - held.used_at
        if found >= _FOUND_AGAIN * held.tokens:
            self.keeps = max(self.keeps, _STEP * unused)
        elif unused <= self.keeps:
            self.keeps = max(unused / _STEP, _LEAST_KEPT * self.holds)


class PrefixMemory:
    """Remembers the latest conversations and openings on each server."""

    def __init__(self) -> None:
        """Start without any."""
        self._caches: dict[str, _Cache] = {}
        self._lengths: OrderedDict[str, int] = OrderedDict()

    def note_server(self, capacity: ServerCapacity) -> bool:
        """Note a server and return whether it is new; then it holds nothing yet."""
        if capacity.server_id in self._caches:
            return False
        holds = capacity.kv_tokens or capacity.slots * capacity.context_tokens
        self._caches[capacity.server_id] = _Cache(holds, holds)
        return True

    def forget_server(self, server_id: str) -> None:
        """Forget what a server held: it was started anew, or is gone."""
        self._caches.pop(server_id, None)

    def expected(
        self, conversation_id: str | None, opening_id: str | None
    ) -> Mapping[str, int]:
        """Return the tokens that each server probably holds of a prompt, if any."""
        found = {
            server_id: max(
                cache.tokens(cache.conversations.get(conversation_id or "")),
                cache.tokens(cache.openings.get(opening_id or "")),
            )
            for server_id, cache in self._caches.items()
        }
        return {server_id: tokens for server_id, tokens in found.items() if tokens}

    def has_opening(self, opening_id: str, server_id: str) -> bool:
        """Whether a server probably still holds an opening."""
        cache = self._caches.get(server_id)
        if cache is None:
            return False
        held = cache.openings.get(opening_id)
        return held is not None and cache.work - held.used_at <= cache.keeps

    def note(self, answered: Answered) -> None:
        """Learn from an answer; a server that was never seen is not noted."""
        cache = self._caches.get(answered.server_id)
        if cache is None:
            return
        conversation = cache.conversations.get(answered.conversation_id or "")
        opening = cache.openings.get(answered.opening_id or "")
        if conversation is not None:
            cache.learn(conversation, answered.cached_tokens)
        elif opening is not None and opening.tokens:
            cache.learn(opening, answered.cached_tokens)
        read = answered.prompt_tokens - answered.cached_tokens
        cache.work += read + answered.output_tokens
        if answered.conversation_id is not None:
            held = answered.prompt_tokens + answered.output_tokens
            _put(
                cache.conversations,
                answered.conversation_id,
                _Held(held, cache.work),
                _CONVERSATIONS,
            )
        if answered.opening_id is not None:
            length = self._length(
                answered.opening_id, answered, continued=conversation is not None
            )
            opened = _Held(length, cache.work)
            _put(cache.openings, answered.opening_id, opened, _OPENINGS)

    def _length(self, opening_id: str, answered: Answered, *, continued: bool) -> int:
        """Return how long an opening is, as far as it was ever found in a cache.

        What the first question of a conversation finds there is the opening.
        """
        length = self._lengths.get(opening_id, 0)
        if not continued:
            length = max(length, answered.cached_tokens)
        _put(self._lengths, opening_id, length, _OPENINGS)
        return length


def _put[T](known: OrderedDict[str, T], key: str, value: T, most: int) -> None:
    known[key] = value
    known.move_to_end(key)
    while len(known) > most:
        known.popitem(last=False)
