"""The real ``openai`` package talks to the gateway."""

import asyncio
from collections.abc import AsyncIterator
import json
from unittest.mock import patch

from homeassistant.core import HomeAssistant
import openai
from pydantic import BaseModel
import pytest

from custom_components.fair_share.const import GATEWAY_PATH
from custom_components.fair_share.gateway import relay
from tests.fake_server import RESET, Call, answer, failure
from tests.gateway.conftest import KEY, House, soon

MESSAGES = [{"role": "user", "content": "Hello"}]
TOOL = {
    "type": "function",
    "function": {
        "name": "light",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
            "additionalProperties": False,
        },
    },
}


def base_url(house: House) -> str:
    """Return the address that a person would enter."""
    return str(house.program.http.make_url(GATEWAY_PATH))


@pytest.fixture
async def client(house: House) -> AsyncIterator[openai.AsyncOpenAI]:
    """The asynchronous client, as it is by default but for the time it waits."""
    async with openai.AsyncOpenAI(
        base_url=base_url(house), api_key=KEY, max_retries=0
    ) as made:
        await asyncio.to_thread(made.platform_headers)
        yield made


async def test_it_gets_a_whole_answer(client: openai.AsyncOpenAI) -> None:
    told = await client.chat.completions.create(model="fake-model", messages=MESSAGES)
    assert told.choices[0].message.content == "Hello."
    assert told.choices[0].finish_reason == "stop"
    assert told.usage is not None
    assert told.usage.completion_tokens == 3
    assert told._request_id  # noqa: SLF001 - so it is documented


async def test_it_gets_a_stream(client: openai.AsyncOpenAI) -> None:
    chunks = [
        chunk
        async for chunk in await client.chat.completions.create(
            model="fake-model",
            messages=MESSAGES,
            stream=True,
            stream_options={"include_usage": True},
        )
    ]
    texts = [c.choices[0].delta.content or "" for c in chunks if c.choices]
    assert "".join(texts) == "Hello."
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 3


async def test_it_waits_through_comments(
    client: openai.AsyncOpenAI, house: House
) -> None:
    gate = asyncio.Event()
    house.server.default = answer(gate, "Hel", "lo")
    with (
        patch.object(relay, "_STATUS_WITHIN_S", 0.05),
        patch.object(relay, "_KEEP_ALIVE_S", 0.05),
        patch.object(relay, "_LOOK_S", 0.02),
    ):
        stream = await client.chat.completions.create(
            model="fake-model", messages=MESSAGES, stream=True
        )
        await asyncio.sleep(0.3)
        gate.set()
        texts = [c.choices[0].delta.content or "" async for c in stream]
    assert "".join(texts) == "Hello"


async def test_it_calls_tools(client: openai.AsyncOpenAI, house: House) -> None:
    house.server.default = answer(Call("light", {"name": "lamp"}, call_id="a"))
    told = await client.chat.completions.create(
        model="fake-model", messages=MESSAGES, tools=[TOOL]
    )
    (call,) = told.choices[0].message.tool_calls or ()
    assert (call.id, call.function.name) == ("a", "light")
    assert json.loads(call.function.arguments) == {"name": "lamp"}
    async with client.chat.completions.stream(
        model="fake-model", messages=MESSAGES, tools=[TOOL]
    ) as stream:
        final = await stream.get_final_completion()
    (call,) = final.choices[0].message.tool_calls or ()
    assert json.loads(call.function.arguments) == {"name": "lamp"}


class Weather(BaseModel):
    """What is asked for."""

    city: str
    degrees: int


async def test_it_gets_structured_output(
    client: openai.AsyncOpenAI, house: House
) -> None:
    house.server.default = answer('{"city": "Tartu",', ' "degrees": -5}')
    told = await client.chat.completions.parse(
        model="fake-model", messages=MESSAGES, response_format=Weather
    )
    assert told.choices[0].message.parsed == Weather(city="Tartu", degrees=-5)
    form = house.server.chats[-1].body["response_format"]
    assert form["json_schema"]["schema"]["required"] == ["city", "degrees"]


async def test_its_errors_are_the_ones_it_knows(
    client: openai.AsyncOpenAI, house: House
) -> None:
    ask = client.chat.completions.create
    with pytest.raises(openai.AuthenticationError):
        await client.with_options(api_key="fs-wrong").models.list()
    with pytest.raises(openai.NotFoundError) as not_found:
        await ask(model="gpt-5", messages=MESSAGES)
    assert not_found.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as long:
        await ask(
            model="fake-model",
            messages=[{"role": "user", "content": " ".join(["word"] * 9000)}],
        )
    assert long.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError):
        await ask(model="fake-model", messages=MESSAGES, n=2)
    house.server.default = failure(500, "boom", "server_error")
    with pytest.raises(openai.InternalServerError):
        await ask(model="fake-model", messages=MESSAGES)


async def test_it_hears_of_an_answer_that_breaks_off(
    client: openai.AsyncOpenAI, house: House
) -> None:
    house.server.default = answer("Hel", RESET)
    stream = await client.chat.completions.create(
        model="fake-model",
        messages=MESSAGES,
        stream=True,
        response_format={"type": "json_object"},
    )
    with pytest.raises(openai.APIError):
        async for _ in stream:
            pass


async def test_it_gives_up_and_nothing_stays_busy(
    client: openai.AsyncOpenAI, house: House
) -> None:
    gate = asyncio.Event()
    house.server.default = answer("Hel", gate, "lo")
    with pytest.raises(openai.APITimeoutError):
        await client.with_options(timeout=0.5).chat.completions.create(
            model="fake-model", messages=MESSAGES
        )
    await soon(lambda: house.is_idle)
    stream = await client.chat.completions.create(
        model="fake-model", messages=MESSAGES, stream=True
    )
    async for _ in stream:
        break
    await stream.close()
    await soon(lambda: house.is_idle)


async def test_it_tries_again_when_it_is_told_to(house: House) -> None:
    house.server.script(failure(503, "Loading model", "unavailable_error"))
    async with openai.AsyncOpenAI(base_url=base_url(house), api_key=KEY) as client:
        await asyncio.to_thread(client.platform_headers)
        told = await client.chat.completions.create(
            model="fake-model", messages=MESSAGES
        )
    assert told.choices[0].message.content == "Hello."


async def test_it_lists_models_and_completes_texts(client: openai.AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == ["fake-model"]
    assert (await client.models.retrieve("fake-model")).owned_by == "fair_share"
    with pytest.raises(openai.NotFoundError):
        await client.models.retrieve("other")
    told = await client.completions.create(model="fake-model", prompt="Once upon")
    assert told.choices[0].text
    stream = await client.completions.create(
        model="fake-model", prompt="Once upon", stream=True
    )
    assert "".join([c.choices[0].text async for c in stream]) == told.choices[0].text


async def test_the_synchronous_client_works_too(
    hass: HomeAssistant, house: House
) -> None:
    url = base_url(house)

    def ask() -> list[str]:
        with openai.OpenAI(base_url=url, api_key=KEY, max_retries=0) as client:
            whole = client.chat.completions.create(
                model="fake-model", messages=MESSAGES
            )
            stream = client.chat.completions.create(
                model="fake-model", messages=MESSAGES, stream=True
            )
            streamed = "".join(c.choices[0].delta.content or "" for c in stream)
            return [whole.choices[0].message.content or "", streamed]

    assert await hass.async_add_executor_job(ask) == ["Hello.", "Hello."]
