"""A server, or whatever came back on its port, may answer anything at all."""

import asyncio
from collections.abc import Iterator, Mapping
import json
from typing import Any

import aiohttp
from hypothesis import HealthCheck, given, settings, strategies as st
import pytest

from custom_components.fair_share.engines.base import EngineError, EngineLoad
from custom_components.fair_share.engines.http import Answer, ServerHttp
from custom_components.fair_share.engines.llama_cpp import LlamaCppEngine
from custom_components.fair_share.engines.openai_compatible import (
    OpenAICompatibleEngine,
)
from custom_components.fair_share.engines.probe import find_server, identify
from custom_components.fair_share.engines.values import digits, whole
from custom_components.fair_share.engines.vllm import VllmEngine
from tests.engines.helpers import ask, engine_for
from tests.fake_replies import Failure
from tests.fake_server import FakeServer

ENGINES = [LlamaCppEngine, VllmEngine, OpenAICompatibleEngine]
NAMES = [
    *("data", "id", "meta", "owned_by", "n_ctx", "max_model_len", "context_length"),
    *("total_slots", "default_generation_settings", "modalities", "vision", "count"),
    *("chat_template_caps", "supports_tools", "build_info", "version", "tokens"),
    *("prompt", "input_tokens", "is_processing"),
]
NUMBERS = st.sampled_from([0, -3, 1.5, 1e400, float("nan"), 10**30, True, 4096])
LEAVES = (
    st.none() | NUMBERS | st.sampled_from(["", "x", "\ud800", "llamacpp", "9" * 99])
)
ODD_JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6)
    ),
    max_leaves=12,
)
MODELS = st.fixed_dictionaries({"data": st.lists(ODD_JSON, max_size=2) | ODD_JSON})
GOOD_MODELS = st.just({"data": [{"id": "x"}]})
VALUES = st.sampled_from(["NaN", "+Inf", "-Inf", "-1", "1e300", "0.5", "3", "x"])
METRICS = st.builds(
    '{}{{block_size="{}",num_gpu_blocks="{}"}} {}'.format,
    st.sampled_from(
        [
            "vllm:cache_config_info",
            "vllm:num_requests_running",
            "vllm:kv_cache_usage_perc",
            "llamacpp:requests_processing",
        ]
    ),
    st.sampled_from(["16", "None", "9" * 5000, "-1", "\u0661\u0666", ""]),
    st.sampled_from(["100", "9" * 5000, "0", "x"]),
    VALUES,
)
ODD_PAGE = st.lists(METRICS, max_size=4).map("\n".join)


class OddHttp(ServerHttp):
    """Answers every question with what was drawn for its path."""

    def __init__(self, answers: Mapping[str, str]) -> None:
        self.api_key = None
        self._answers = answers

    async def get(self, path: str) -> Answer:
        return Answer(self._answers.get(path, self._answers["*"]))

    async def post(self, path: str, body: Mapping[str, Any]) -> Answer:
        json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        return await self.get(path)

    def stream(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> Any:
        raise EngineError("not of interest here")


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(
    models=GOOD_MODELS | MODELS | ODD_JSON,
    other=ODD_JSON | st.dictionaries(st.sampled_from(NAMES), ODD_JSON, max_size=8),
    page=ODD_PAGE,
)
@pytest.mark.parametrize("engine_type", ENGINES)
def test_whatever_a_server_answers_only_typed_errors_come_of_it(
    engine_type: type[LlamaCppEngine], models: object, other: object, page: str
) -> None:
    http = OddHttp(
        {"/v1/models": json.dumps(models), "/metrics": page, "*": json.dumps(other)}
    )

    async def ask_everything() -> None:
        for question in (
            engine_type(http).probe,
            engine_type(http).load,
            lambda: engine_type(http).count_tokens(ask()),
            lambda: identify(http),
        ):
            try:
                checked(await question())
            except EngineError:
                continue

    asyncio.run(ask_everything())


def checked(answer: object) -> None:
    """Fail if a load holds numbers that are none."""
    assert all(0 <= number <= 10**9 for number in numbers(answer))


def numbers(answer: object) -> Iterator[float]:
    """Yield the numbers of a load."""
    load = answer if isinstance(answer, EngineLoad) else EngineLoad()
    told = (
        load.running,
        load.deferred,
        load.kv_used_fraction,
        load.preemptions,
        load.kv_used_tokens,
        *(load.sequences or ()),
        load.slots,
        load.context_tokens,
    )
    yield from (number for number in told if number is not None)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/models", '{"data": 5}'),
        ("/v1/models", '{"data": true}'),
        ("/v1/models", '{"data": [{"id": null}]}'),
        ("/v1/models", "[" * 200_000),
        ("/props", '{"total_slots": 1e400}'),
        ("/props", "[1]"),
        ("/metrics", "llamacpp:requests_processing NaN"),
        ("/metrics", "vllm:num_requests_running +Inf"),
        ("/metrics", "\0garbage"),
        ("/v1/chat/completions/input_tokens", '"' + "[" * 100_000),
        ("/tokenize", '{"count": {}}'),
        ("/version", '{"version": {}}'),
    ],
)
async def test_an_odd_answer_over_http_ends_in_a_typed_error_or_in_none(
    session: aiohttp.ClientSession, any_server: FakeServer, path: str, body: str
) -> None:
    any_server.override[path] = Failure(200, body)
    engine = engine_for(session, any_server)
    outcomes = await asyncio.gather(
        find_server(session, any_server.url),
        engine.probe(),
        engine.load(),
        return_exceptions=True,
    )
    surprises = [o for o in outcomes if isinstance(o, Exception)]
    assert [e for e in surprises if not isinstance(e, EngineError)] == []


async def test_a_metric_that_is_no_number_is_not_known(
    session: aiohttp.ClientSession, llama_server: FakeServer
) -> None:
    page = "llamacpp:requests_processing NaN\nllamacpp:requests_deferred 2\n"
    llama_server.override["/metrics"] = Failure(200, page)
    llama_server.hide = {"/slots"}
    assert await engine_for(session, llama_server).load() == EngineLoad(None, 2)


@pytest.mark.parametrize("value", [True, -1, 1.5, float("inf"), 10**30, "3", None])
def test_what_is_no_number_of_things_is_none(value: object) -> None:
    assert whole(value) is None


@pytest.mark.parametrize("value", ["9" * 5000, "-1", "0", "", "x", None])
def test_digits_that_are_no_number_of_things_are_none(value: str | None) -> None:
    assert digits(value) is None
