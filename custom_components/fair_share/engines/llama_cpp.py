"""llama.cpp's server.

What a client can tell about its memory, and what it cannot (measured with builds 11549
and 11669): ``/props`` names the number of slots and the context of one slot. Nothing,
neither ``/props``, ``/slots``, ``/metrics`` nor ``/v1/models``, tells whether the slots
have memory of their own (``-np N`` alone) or share one pool (``--kv-unified``, also the
default when ``-np`` is not given). When a shared pool is used up every stream on it
dies. So several slots are taken to share a pool of the size of one slot's context,
which is what is certain; a household that knows better declares it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .base import (
    Capabilities,
    ClientFaultError,
    EngineKind,
    EngineLoad,
    NotAnEngineError,
    PromptSlices,
    Resume,
    ResumeWay,
)
from .chat_engine import CHAT_PATH, ChatEngine
from .http import Answer
from .media import Medium
from .open_answer import OpenAnswer
from .prometheus import total
from .resume import (
    COMPLETION_PATH,
    CONTINUES,
    Asked,
    Messages,
    completion_body,
    try_continuing,
)
from .slices import TokenSlices
from .think import opens_block
from .values import label, positive, text, whole

# Fields of a chat that change how its prompt is rendered.
_TEMPLATE_FIELDS = (
    "messages",
    "tools",
    "add_generation_prompt",
    "continue_final_message",
    "chat_template_kwargs",
)

# Fields that say what reads a prompt.
_SLOT_FIELDS = ("model", "id_slot", "lora")


class LlamaCppEngine(ChatEngine):
    """One llama.cpp server."""

    kind = EngineKind.LLAMA_CPP
    _counts_in_one_call = True
    _tells_tokens = True

    async def load(self) -> EngineLoad:
        """Return busy slots, what they hold, and what waits inside the server.

        ``deferred`` only where the server was started with ``--metrics``, ``running``
        also with ``--slots``, the rest only with that. Raises ``EngineError``,
        ``LoadingError`` among them.
        """
        # Both answer only between two batches: one must not wait for the other.
        metrics, slots = await asyncio.gather(
            self._page("/metrics"), self._page("/slots")
        )
        load = EngineLoad() if slots is None else _load_from_slots(slots.json())
        if metrics is not None:
            running = whole(total(metrics.text, "llamacpp:requests_processing"))
            deferred = whole(total(metrics.text, "llamacpp:requests_deferred"))
            known = load.running if running is None else running
            return replace(load, running=known, deferred=deferred)
        if slots is None:
            await self._check_ready()
        return load

    async def _page(self, path: str) -> Answer | None:
        """Return what is there, ``None`` where the server was started without."""
        try:
            return await self._http.get(path)
        except ClientFaultError:
            return None

    async def _check_ready(self) -> None:
        # Older builds list their models while they still load them.
        await self._http.get("/health")

    async def _facts(
        self, models: tuple[str, ...], entries: Sequence[Mapping[str, Any]]
    ) -> Capabilities:
        try:
            props = (await self._http.get("/props")).fields()
        except ClientFaultError, NotAnEngineError:
            props = {}
        settings = _mapping(props.get("default_generation_settings"))
        meta = _mapping(entries[0].get("meta"))
        modalities = _mapping(props.get("modalities"))
        self._takes = {
            Medium.PICTURE: bool(modalities.get("vision")),
            Medium.SOUND: bool(modalities.get("audio")),
        }
        caps = _mapping(props.get("chat_template_caps"))
        self._tells_tokens = True
        slots = positive(props.get("total_slots"))
        context = positive(settings.get("n_ctx")) or positive(meta.get("n_ctx"))
        if self._opens_think is None:
            self._opens_think = await self._prompt_opens_think()
        counts, resume = await self._can_count(), await self._how_to_resume()
        return Capabilities(
            kind=self.kind,
            model=self._model or models[0],
            models=models,
            version=label(props.get("build_info")),
            slots=slots,
            context_tokens=context,
            kv_tokens=None if slots == 1 else context,
            # Where the chat template knows no tools they are dropped without a word.
            tools=bool(caps.get("supports_tools", True)),
            counts_tokens=counts,
            reports_progress=True,
            slices=counts and resume is not None,
            resume=resume,
        )

    async def _prompt_opens_think(self) -> bool | None:
        """Look whether a prompt ends inside a block, ``None`` if it can't be seen."""
        try:
            return opens_block(await self._prompt({"messages": [_SHORT]}))
        except ClientFaultError, NotAnEngineError:
            return None

    async def _asked_to_go_on(
        self, body: Mapping[str, Any], answer: OpenAnswer
    ) -> Asked:
        asked = await super()._asked_to_go_on(body, answer)
        if self._resume == Resume(ResumeWay.TEMPLATE):
            prompt = await self._prompt(body)
            return Asked(COMPLETION_PATH, completion_body(body, prompt, answer))
        return asked

    async def _how_to_resume(self) -> Resume | None:
        if found := await try_continuing(self._continuation):
            return found
        try:
            await self._prompt({"messages": [_SHORT]})
        except ClientFaultError, NotAnEngineError:
            return None
        return Resume(ResumeWay.TEMPLATE)

    async def _continuation(self, messages: Messages) -> str | None:
        try:
            return await self._prompt({"messages": messages, **CONTINUES})
        except ClientFaultError, NotAnEngineError:
            return None

    async def _prompt(self, body: Mapping[str, Any]) -> str:
        fields = {name: body[name] for name in _TEMPLATE_FIELDS if name in body}
        answer = await self._http.post("/apply-template", fields)
        return text(answer.fields().get("prompt"))

    async def _can_count(self) -> bool:
        try:
            return await self._count({"messages": [_SHORT]}) is not None
        except ClientFaultError, NotAnEngineError:
            return False

    def _defaults(self) -> Mapping[str, Any]:
        return {
            "cache_prompt": True,
            "return_progress": True,
            # Counts along: pieces are not always single tokens.
            "timings_per_token": True,
            # Reasoning in a field of its own, however the server was started.
            "reasoning_format": "auto",
        }

    async def _count(self, body: Mapping[str, Any]) -> int | None:
        prompt = {name: body[name] for name in _TEMPLATE_FIELDS if name in body}
        if self._counts_in_one_call:
            try:
                answer = await self._http.post(f"{CHAT_PATH}/input_tokens", prompt)
            except ClientFaultError as err:
                if err.status not in _NO_SUCH_PATH:
                    raise
                self._counts_in_one_call = False
            else:
                return positive(answer.fields().get("input_tokens"))
        return await self._count_in_two_calls(prompt)

    async def _count_in_two_calls(self, prompt: Mapping[str, Any]) -> int | None:
        tokens = await self._tokens(await self._prompt(prompt))
        return None if tokens is None else len(tokens)

    async def _tokens(self, prompt: str) -> list[int] | None:
        fields = {"content": prompt, "add_special": True, "parse_special": True}
        answer = await self._http.post("/tokenize", fields)
        tokens = answer.fields().get("tokens")
        return tokens if isinstance(tokens, list) else None

    async def _slices(self, asked: Asked) -> PromptSlices | None:
        if not self._tells_tokens:
            return None
        body = asked.body
        rendered = asked.path == COMPLETION_PATH
        try:
            prompt = body["prompt"] if rendered else await self._prompt(body)
            tokens = await self._tokens(prompt)
            counted = None if rendered else await self._count(body)
        except ClientFaultError as err:
            self._tells_tokens = err.status not in _NO_SUCH_PATH
            return None
        except NotAnEngineError:
            return None
        if not tokens or counted not in {None, len(tokens)}:
            # It is not rendered for the answer as it is here.
            return None
        fields = {name: body[name] for name in _SLOT_FIELDS if name in body}
        return TokenSlices(self._http, tokens, fields)


_SHORT = {"role": "user", "content": "Hi"}
_NO_SUCH_PATH = {404, 405, 501}


def _load_from_slots(listed: object) -> EngineLoad:
    slots = [_mapping(slot) for slot in listed] if isinstance(listed, list) else []
    busy = [slot for slot in slots if slot.get("is_processing")]
    # It grows while the prompt is read and the answer written; older builds do not
    # tell it.
    held = [whole(slot.get("n_prompt_tokens")) for slot in busy]
    known = tuple(tokens for tokens in held if tokens is not None)
    tells = len(known) == len(busy)
    return EngineLoad(
        running=len(busy),
        kv_used_tokens=sum(known) if tells else None,
        sequences=known if tells else None,
        slots=len(slots) or None,
        context_tokens=positive(slots[0].get("n_ctx")) if slots else None,
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
