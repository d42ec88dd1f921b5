"""What every engine offers: the protocol, the typed deltas and the typed errors."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .open_answer import OpenAnswer


class EngineKind(StrEnum):
    """The kinds of server that are told apart."""

    LLAMA_CPP = "llama_cpp"
    VLLM = "vllm"
    OPENAI_COMPATIBLE = "openai_compatible"


class ResumeWay(StrEnum):
    """How a server is asked to go on with an answer.

    ``CONTINUE``: its own option to continue the last message. ``TEMPLATE``: the text
    of prompt and answer as one, to be completed.
    """

    CONTINUE = "continue"
    TEMPLATE = "template"


@dataclass(frozen=True, slots=True)
class Resume:
    """What a server can do with an answer that was interrupted.

    ``reasoning``: it goes on inside and after a block of reasoning too;
    ``after_reasoning``: at least after one. ``trims``: it drops white space at the end
    of what there is of the answer.
    """

    way: ResumeWay
    reasoning: bool = False
    trims: bool = False
    after_reasoning: bool = False


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a probe found out about a server.

    ``slots`` is ``None`` where the server does not tell (vLLM, unknown servers);
    then the household has to declare it. ``context_tokens`` is the context of one
    slot. ``kv_tokens`` is the pool that all slots share, ``None`` when each slot has
    memory of its own. ``vision``: the model takes pictures, ``audio``: sound.
    ``counts_tokens``: exact prompt counts can be had. ``reports_progress``: prefill
    progress events can be had. ``slices``: a prompt can probably be read ahead of its
    answer, part by part. ``resume``: how an interrupted answer goes on, ``None`` if it
    can't.
    """

    kind: EngineKind
    model: str
    models: tuple[str, ...]
    version: str | None = None
    slots: int | None = None
    context_tokens: int | None = None
    kv_tokens: int | None = None
    block_tokens: int = 1
    survives_exhaustion: bool = False
    vision: bool = False
    audio: bool = False
    tools: bool = True
    counts_tokens: bool = False
    reports_progress: bool = False
    slices: bool = False
    resume: Resume | None = None


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """What the server says of itself right now; ``None`` where it does not say.

    ``preemptions`` counts, since the server's start, how often it took a running answer
    off by itself because its memory was used up. ``kv_used_tokens`` is what all running
    sequences hold together, ``sequences`` what each of them does. ``slots`` and
    ``context_tokens`` (of one slot) are as in ``Capabilities``.
    """

    running: int | None = None
    deferred: int | None = None
    kv_used_fraction: float | None = None
    preemptions: int | None = None
    kv_used_tokens: int | None = None
    sequences: tuple[int, ...] | None = None
    slots: int | None = None
    context_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a request stands in the household, for servers that schedule by it.

    ``band`` is its urgency when it was let in, 0 the most urgent. ``fairness_id`` is
    the same for all requests of one member, and tells nothing else of the member.
    """

    band: int
    fairness_id: str


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One chat completion to be generated.

    ``messages`` and ``tools`` have OpenAI's chat shape. ``parameters`` are further
    body fields (``temperature``, ``response_format``, ...) passed on as they are.
    ``origin`` goes only to servers that schedule by it. ``raw``: the content of the
    only message is a text to go on with, without the form of a chat.
    """

    messages: Sequence[Mapping[str, Any]]
    max_output_tokens: int
    model: str | None = None
    tools: Sequence[Mapping[str, Any]] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    origin: Origin | None = None
    raw: bool = False


@dataclass(frozen=True, slots=True)
class Content:
    """A piece of the answer; ``tokens`` is how many output tokens it stands for."""

    text: str
    tokens: int = 1


@dataclass(frozen=True, slots=True)
class Thinking:
    """A piece of reasoning, never to be spoken or shown as the answer."""

    text: str
    tokens: int = 1


@dataclass(frozen=True, slots=True)
class WasThinking:
    """All ``Content`` before this was reasoning, as only its end tells.

    Where a prompt opens the block of reasoning, nothing but the closing tag is seen.
    Whoever still can takes the text back.
    """


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A fragment of a tool call.

    ``index`` is the position of the call in this answer, already made unique by the
    parser (some servers number all parallel calls 0). ``call_id`` comes with the first
    fragment of a call. ``name`` does too, or in pieces, and ``arguments`` is a piece
    of JSON text.
    """

    index: int
    call_id: str | None = None
    name: str | None = None
    arguments: str = ""
    tokens: int = 1


@dataclass(frozen=True, slots=True)
class PromptProgress:
    """So many of the prompt's tokens are done; ``cached`` of them came from cache."""

    total: int
    cached: int
    processed: int


@dataclass(frozen=True, slots=True)
class Usage:
    """The final count of tokens.

    ``prompt_tokens`` is ``None`` when the server does not tell it; then the household
    puts in what it measured. ``cached_tokens`` is never more than the prompt.
    ``estimated`` is true when a number did not come from the server.
    """

    prompt_tokens: int | None
    cached_tokens: int
    output_tokens: int
    estimated: bool = False


class FinishReason(StrEnum):
    """Why the answer ended."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"


@dataclass(frozen=True, slots=True)
class Finish:
    """The answer is complete."""

    reason: FinishReason


type Delta = (
    Content | Thinking | WasThinking | ToolCallDelta | PromptProgress | Usage | Finish
)


class EngineError(Exception):
    """Something went wrong between us and the server.

    ``detail`` is for the log: our own words, with the status and what is known of the
    server's; it never holds a prompt, an answer or a key. ``server_fault`` says whether
    it counts against the server's health.
    """

    server_fault = False

    def __init__(self, detail: str = "", *, status: int | None = None) -> None:
        """Keep the detail and the HTTP status, where there was one."""
        super().__init__(detail or type(self).__name__)
        self.detail = detail
        self.status = status


class InvalidAddressError(EngineError):
    """What was typed is not the address of a server."""


class UnreachableError(EngineError):
    """Nothing listens there, or it did not answer in time."""

    server_fault = True


class NoConnectionError(UnreachableError):
    """No connection could be made: nothing of the request has reached the server."""


class NotAnEngineError(EngineError):
    """Something answers there, but it is not an OpenAI-compatible server."""


class AuthError(EngineError):
    """The server refused the key."""


class LoadingError(EngineError):
    """The model is still being loaded."""


class BusyError(EngineError):
    """The server has no room and says so."""


class NoChatModelError(EngineError):
    """The server has no model that can chat."""


class NoStreamingError(EngineError):
    """The server does not stream its answers."""


class ContextOverflowError(EngineError):
    """Prompt and answer do not fit into the context."""

    def __init__(
        self,
        detail: str = "",
        *,
        status: int | None = None,
        prompt_tokens: int | None = None,
        context_tokens: int | None = None,
    ) -> None:
        """Keep both sizes where the server told them."""
        super().__init__(detail, status=status)
        self.prompt_tokens = prompt_tokens
        self.context_tokens = context_tokens


class PoolExhaustedError(ContextOverflowError):
    """The pool of context that all streams share ran out while they were running.

    Every stream on it dies, also one that would have fitted on its own.
    """


class ClientFaultError(EngineError):
    """The request itself was refused or makes this server fail."""

    def __init__(
        self,
        detail: str = "",
        *,
        status: int | None = None,
        dispensable: frozenset[str] = frozenset(),
    ) -> None:
        """Keep which fields, of those that can be done without, the server named."""
        super().__init__(detail, status=status)
        self.dispensable = dispensable


class ServerFaultError(EngineError):
    """The server failed."""

    server_fault = True


class StreamCutError(ServerFaultError):
    """The stream ended before the answer was complete."""


class InterruptedAnswer(Exception):  # noqa: N818 - what was asked for
    """The answer was left because ``OpenAnswer.interrupt`` asked for it."""


class PromptSlices(Protocol):
    """A prompt that a server can read ahead of its answer, part by part.

    An answer that is asked for afterwards finds in the server's cache what was read.
    """

    @property
    def total(self) -> int:
        """The length of the whole prompt in tokens."""
        ...

    async def read(self, upto: int) -> int:
        """Have the first ``upto`` tokens read; return how many were in the cache.

        Being cancelled closes the connection. Raises ``EngineError``.
        """
        ...


class Engine(Protocol):
    """One inference server.

    Every answer is streamed from the server, whatever the client asked for: only
    then does the server notice that a client left. Leaving the context manager of
    ``stream`` by any path closes the connection, which frees the slot.
    """

    kind: EngineKind

    async def probe(self) -> Capabilities:
        """Ask the server what it is and can do.

        Raises ``UnreachableError``, ``NotAnEngineError``, ``AuthError``,
        ``LoadingError``, ``NoChatModelError`` or ``NoStreamingError``.
        """
        ...

    async def count_tokens(self, request: GenerationRequest) -> int | None:
        """Return the exact prompt length in tokens, ``None`` if it can't be had."""
        ...

    async def read_ahead(
        self, request: GenerationRequest, answer: OpenAnswer
    ) -> PromptSlices | None:
        """Return the prompt in a form that can be read part by part.

        It is the prompt for what follows if ``answer`` was begun. ``None`` when this
        prompt can't be read so: because of the server, or of pictures or sound in it.
        Raises ``EngineError``.
        """
        ...

    def stream(
        self, request: GenerationRequest, answer: OpenAnswer | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[Delta]]:
        """Generate; the iterator ends after one ``Usage`` and one ``Finish``.

        With an ``answer`` that an earlier run has begun, go on with it: the deltas
        are what follows, the ``Usage`` is that of this run. Raises an ``EngineError``
        on entering or while iterating, ``InterruptedAnswer`` when the answer was
        interrupted.
        """
        ...

    async def embed(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the answer to a request for embeddings, in OpenAI's shape.

        Raises ``EngineError``.
        """
        ...

    async def load(self) -> EngineLoad:
        """Return what the server says it is doing. Raises ``EngineError``."""
        ...
