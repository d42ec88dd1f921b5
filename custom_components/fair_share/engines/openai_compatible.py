"""Any other server with OpenAI's chat completions.

It is sent the fields that all of them know and no more. It tells neither slots nor
memory: the household declares the slots.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from .base import Capabilities, EngineKind, EngineLoad
from .chat_engine import ChatEngine
from .values import positive


class OpenAICompatibleEngine(ChatEngine):
    """One server of an unknown make."""

    kind = EngineKind.OPENAI_COMPATIBLE

    async def load(self) -> EngineLoad:
        """Tell only that the server answers. Raises ``EngineError``."""
        await self._http.get("/v1/models")
        return EngineLoad()

    async def _check_ready(self) -> None:
        # The list of models, which is read next, says it too.
        return

    async def _facts(
        self, models: tuple[str, ...], entries: Sequence[Mapping[str, Any]]
    ) -> Capabilities:
        model = self._model or models[0]
        entry = next((e for e in entries if e["id"] == model), entries[0])
        named = (entry.get(name) for name in ("max_model_len", "context_length"))
        return Capabilities(
            kind=self.kind,
            model=model,
            models=models,
            context_tokens=next(filter(None, map(positive, named)), None),
        )
