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
from .prometheus import labels, total
from .resume import CONTINUES, Messages, try_continuing
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

    def __init__(self, http: ServerHttp, model: str | None = None) -> None:
        """See ``ChatEngine``."""
        super().__init__(http, model)
        # Its chunks are not tokens: only with the usage in each of them can tokens be
        # counted as they come.
        self._stream_options = {"include_usage": True, "continuous_usage_stats": True}

    async def load(self) -> EngineLoad:
        """Return running and waiting sequences and the used part of the KV cache.

        Raises ``EngineError``.
        """
        page = (await self._http.get("/metrics")).text
        return EngineLoad(
            running=whole(total(page, "vllm:num_requests_running")),
            deferred=whole(total(page, "vllm:num_requests_waiting")),
            kv_used_fraction=fraction(
                total(page, "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
            ),
        )

    async def _check_ready(self) -> None:
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
        found = await try_continuing(partial(self._continuation, model))
        # Its parser of reasoning was not seen to know that an answer goes on.
        return found and replace(found, reasoning=False)

    async def _continuation(self, model: str, messages: Messages) -> str | None:
        """Return the prompt of messages of which the last is to be continued."""
        body = {"model": model, "messages": messages, **CONTINUES}
        try:
            tokens = (await self._http.post("/tokenize", body)).fields().get("tokens")
            asked = {"model": model, "tokens": tokens}
            shown = (await self._http.post("/detokenize", asked)).fields()
        except EngineError:
            return None
        return text(shown.get("prompt"))

    async def _cache(self) -> tuple[int | None, int]:
        """Return the tokens of the KV cache and of one block."""
        try:
            page = (await self._http.get("/metrics")).text
        except EngineError:
            return None, 1
        config = labels(page, "vllm:cache_config_info")
        block = digits(config.get("block_size")) or 1
        blocks = digits(config.get("num_gpu_blocks"))
        pool = digits(config.get("kv_cache_size_tokens"))
        return pool or (blocks * block if blocks else None), block

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
