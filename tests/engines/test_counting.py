"""Counting a prompt, which no queue guards."""

import asyncio
from collections.abc import Mapping
from typing import Any

from custom_components.fair_share.engines.http import Answer, ServerHttp
from custom_components.fair_share.engines.llama_cpp import LlamaCppEngine
from tests.engines.helpers import ask


class BusyHttp(ServerHttp):
    """Counts how many questions it is asked at once."""

    def __init__(self) -> None:
        self.peak = 0
        self._running = 0

    async def post(self, path: str, body: Mapping[str, Any]) -> Answer:
        self._running += 1
        self.peak = max(self.peak, self._running)
        await asyncio.sleep(0)
        self._running -= 1
        return Answer('{"input_tokens": 7}')


async def test_a_server_is_given_few_prompts_to_count_at_once() -> None:
    http = BusyHttp()
    engine = LlamaCppEngine(http, "x")
    counting = (engine.count_tokens(ask()) for _ in range(5))
    assert await asyncio.gather(*counting) == [7] * 5
    assert http.peak == 2
