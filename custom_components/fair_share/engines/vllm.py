"""vLLM.

Tells the size of its KV cache and its blocks, but not how many sequences it runs at
once (``--max-num-seqs``): the household declares that. When the cache is used up it
preempts a sequence by itself and computes it again later, no stream is lost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from .base import Capabilities, EngineError, EngineKind, EngineLoad, Resume
from .chat_engine import ChatEngine
from .http import ServerHttp
from .model_list import list_models
from .open_answer import OpenAnswer
from .prometheus import labels, total
from .resume import (
    CONTINUES,
    Asked,
    Messages,
    shows_end_of_reasoning,
    try_continuing,
)
from .scheduling_fields import Scheduling
from .values import digits, fraction, label, positive, text, whole

_TOKENIZE_FIELDS = (
    "model",
    "messages",
    "tools",
    "add_generation_prompt",
    "continue_final_message",
    "chat_template_kwargs",
)


class VllmEngine(ChatEngine):
    """One vLLM server."""

    kind = EngineKind.VLLM

    def __init__(
        self,
        http: ServerHttp,
        model: str | None = None,
        *,
        scheduling: Scheduling = Scheduling.NONE,
    ) -> None:
        """See ``ChatEngine``."""
        super().__init__(http, model, scheduling=scheduling)
        # Its chunks are not tokens: only with the usage in each of them can tokens be
        # counted as they come.
        self._stream_options = {"include_usage": True, "continuous_usage_stats": True}

    async def load(self) -> EngineLoad:
        """Return what runs and waits, and how full the KV cache is and was.

        The front of a cluster tells of all of its servers together or of any one of
        them, which says nothing of the household's part: then it is only asked whether
        it answers. Raises ``EngineError``.
        """
        if self._scheduling is Scheduling.CLUSTER:
            await list_models(self._http)
            return EngineLoad()
        page = (await self._http.get("/metrics")).text
        used = fraction(
            total(page, "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
        )
        pool, _ = _pool(page)
        return EngineLoad(
            running=whole(total(page, "vllm:num_requests_running")),
            deferred=whole(total(page, "vllm:num_requests_waiting")),
            kv_used_fraction=used,
            preemptions=whole(total(page, "vllm:num_preemptions_total")),
            kv_used_tokens=None if used is None or pool is None else round(used * pool),
        )

    async def _check_ready(self) -> None:
        # The front of a cluster need not have that; its list of models is read next.
        if self._scheduling is not Scheduling.CLUSTER:
            await self._http.get("/health")

    async def _facts(
        self, models: tuple[str, ...], entries: Sequence[Mapping[str, Any]]
    ) -> Capabilities:
        model = self._model or models[0]
        entry = next((e for e in entries if e["id"] == model), entries[0])
        pool, block = await self._cache()
        return Capabilities(
            kind=self.kind,
            model=model,
            models=models,
            version=await self._version(),
            context_tokens=positive(entry.get("max_model_len")),
            kv_tokens=pool,
            block_tokens=block,
            survives_exhaustion=True,
            counts_tokens=await self._can_count(model),
            resume=await self._how_to_resume(model),
        )

    async def _how_to_resume(self, model: str) -> Resume | None:
        render = partial(self._continuation, model)
        found = await try_continuing(render)
        if found is None:
            return None
        # Templates close the block of reasoning that is given back to them, so that it
        # can't go on inside. After it the parser finds the end in the prompt.
        after = await shows_end_of_reasoning(render)
        return replace(found, reasoning=False, after_reasoning=after)

    async def _continuation(self, model: str, messages: Messages) -> str | None:
        """Return the prompt of messages of which the last is to be continued."""
        named = _by_both_names(messages)
        body = {"model": model, "messages": named, **CONTINUES}
        try:
            tokens = (await self._http.post("/tokenize", body)).fields().get("tokens")
            asked = {"model": model, "tokens": tokens}
            shown = (await self._http.post("/detokenize", asked)).fields()
        except EngineError:
            return None
        return text(shown.get("prompt"))

    async def _asked_to_go_on(
        self, body: Mapping[str, Any], answer: OpenAnswer
    ) -> Asked:
        asked = await super()._asked_to_go_on(body, answer)
        messages = _by_both_names(asked.body["messages"])
        return Asked(asked.path, {**asked.body, "messages": messages})

    async def _cache(self) -> tuple[int | None, int]:
        """Return the tokens of the KV cache and of one block."""
        if self._scheduling is Scheduling.CLUSTER:
            return None, 1
        try:
            page = (await self._http.get("/metrics")).text
        except EngineError:
            return None, 1
        return _pool(page)

    async def _version(self) -> str | None:
        try:
            return label((await self._http.get("/version")).fields().get("version"))
        except EngineError:
            return None

    async def _can_count(self, model: str) -> bool:
        body = {"model": model, "messages": [{"role": "user", "content": "Hi"}]}
        try:
            return await self._count(body) is not None
        except EngineError:
            return False

    async def _count(self, body: Mapping[str, Any]) -> int | None:
        prompt = {name: body[name] for name in _TOKENIZE_FIELDS if name in body}
        count = (await self._http.post("/tokenize", prompt)).fields().get("count")
        return positive(count)


def _by_both_names(messages: Messages) -> Messages:
    """Return messages with their reasoning in the newer field as well.

    Chats take either in 0.32, rendering takes the newer one only.
    """
    return [
        {**message, "reasoning": message["reasoning_content"]}
        if message.get("reasoning_content")
        else message
        for message in messages
    ]


def _pool(page: str) -> tuple[int | None, int]:
    """Return the tokens of the KV cache and of one block, as its metrics tell them."""
    config = labels(page, "vllm:cache_config_info")
    block = digits(config.get("block_size")) or 1
    blocks = digits(config.get("num_gpu_blocks"))
    pool = digits(config.get("kv_cache_size_tokens"))
    return pool or (blocks * block if blocks else None), block
