"""What is said, and logged, when something does not work."""

import asyncio
import logging
from typing import Any

from freezegun.api import FrozenDateTimeFactory
from homeassistant.components.conversation import ConversationResult
import pytest

from custom_components.fair_share.admission.model import Rejected, RejectReason
from custom_components.fair_share.agents.errors import AgentError, explain
from custom_components.fair_share.engines.base import (
    AuthError,
    BusyError,
    ClientFaultError,
    ContextOverflowError,
    EngineError,
    LoadingError,
    NotAnEngineError,
    PoolExhaustedError,
    ServerFaultError,
    StreamCutError,
    UnreachableError,
)
from tests.agents.conftest import House, is_error, speech
from tests.fake_replies import Failure, Reply
from tests.fake_server import RESET, answer, chunk, event, failure, raw

TEXT = "a secret of Parent"


def lines(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return what the agents wrote into the log, from information on."""
    return [
        record
        for record in caplog.records
        if record.name.startswith("custom_components.fair_share.agents")
        and record.levelno >= logging.INFO
    ]


async def test_a_request_that_the_server_refuses_is_told_and_logged_once(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.server.script(failure(400, "bad field", "invalid_request_error"))
    result = await house.say(TEXT)
    assert is_error(result)
    assert speech(result) == "The language model's server refused this request."
    (line,) = lines(caplog)
    assert (line.levelno, line.exc_info) == (logging.WARNING, None)
    assert "conversation.fair_share" in line.getMessage()
    assert "server_refused" in line.getMessage()


async def test_no_line_of_the_log_tells_what_was_said(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    house.server.script(answer("One secret of Child", RESET), failure(400, "no"))
    await house.say(TEXT)
    await house.say(TEXT)
    ours = [r for r in caplog.records if "fair_share" in r.name]
    assert "secret" not in "\n".join(record.getMessage() for record in ours)


@pytest.mark.parametrize(
    "reply",
    [
        failure(400, "cannot parse: my PIN is 4711", "invalid_request_error"),
        failure(500, "4711", "server_error"),
        raw(
            chunk({"content": "Your PIN is "}),
            event({"error": {"code": 500, "message": "Failed to parse input: 4711"}}),
        ),
    ],
)
async def test_what_a_server_repeats_of_message_or_answer_is_in_no_line_of_the_log(
    house: House, caplog: pytest.LogCaptureFixture, reply: Reply
) -> None:
    caplog.set_level(logging.INFO)
    house.server.default = reply
    result = await house.say("my PIN is 4711")
    ours = [r.getMessage() for r in caplog.records if "fair_share." in r.name]
    assert any("HTTP status" in line for line in ours)
    assert not [line for line in ours if "4711" in line]
    assert "4711" not in speech(result)


async def test_after_a_turn_that_failed_the_conversation_goes_on(house: House) -> None:
    first = await house.say("one")
    house.server.script(failure(400, "no"))
    await house.say("two", first.conversation_id)
    await house.say("three", first.conversation_id)
    messages = house.sent_messages()
    roles = [m["role"] for m in messages[1:]]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
    assert messages[1]["content"].endswith("one")
    assert messages[-1]["content"].endswith("three")


@pytest.mark.parametrize(
    "refusal",
    [
        failure(400, "request exceeds the context", "exceed_context_size_error"),
        failure(400, "This model's maximum context length is 10 tokens.", "x"),
        failure(500, "Context size has been exceeded.", "server_error"),
    ],
)
async def test_an_overflow_that_the_server_finds_is_too_long_and_not_tried_again(
    house: House, refusal: Failure
) -> None:
    """See llama.cpp #15780."""
    house.server.script(refusal)
    assert speech(await house.say()).startswith("This is too long")
    assert len(house.sent) == 1
    assert house.household.status().servers[0].usable


@pytest.mark.parametrize(
    ("error", "key", "level"),
    [
        (UnreachableError(), "server_away", logging.WARNING),
        (NotAnEngineError(), "server_unsuitable", logging.WARNING),
        (AuthError(), "server_refused_key", logging.WARNING),
        (LoadingError(), "server_loading", logging.WARNING),
        (BusyError(), "server_busy", logging.WARNING),
        (PoolExhaustedError(), "server_busy", logging.WARNING),
        (ContextOverflowError(), "too_long", logging.WARNING),
        (ClientFaultError(), "server_refused", logging.WARNING),
        (ServerFaultError(), "server_failed", logging.WARNING),
        (StreamCutError(), "answer_cut", logging.WARNING),
        (EngineError(), "server_failed", logging.WARNING),
        (Rejected(RejectReason.TOO_LONG), "too_long", logging.INFO),
        (Rejected(RejectReason.QUEUE_FULL), "queue_full", logging.INFO),
        (Rejected(RejectReason.NO_SERVER), "server_away", logging.INFO),
        (Rejected(RejectReason.CLASS_REMOVED), "stopped", logging.INFO),
        (Rejected(RejectReason.CLOSED), "stopped", logging.INFO),
        (Rejected(RejectReason.QUOTA), "quota_used_up", logging.INFO),
    ],
)
async def test_every_error_has_a_sentence(
    house: House, error: Rejected | EngineError, key: str, level: int
) -> None:
    explained = explain(error)
    assert (explained.key, explained.level) == (key, level)
    sentence = await explained.async_sentence(house.hass, "en")
    assert str(explained) == sentence.removesuffix(".")


@pytest.mark.parametrize(
    ("seconds", "key", "placeholders"),
    [
        (3600.0 * 3, "quota_used_up_today", {}),
        (3600.0 * 27, "quota_used_up_days", {"days": "2"}),
        (3600.0 * 51, "quota_used_up_days", {"days": "3"}),
    ],
)
async def test_when_a_quota_starts_again_is_told(
    house: House,
    freezer: FrozenDateTimeFactory,
    seconds: float,
    key: str,
    placeholders: dict[str, str],
) -> None:
    await house.hass.config.async_set_time_zone("Europe/Tallinn")
    freezer.move_to("2026-11-03 19:00:00+00:00")
    error = explain(Rejected(RejectReason.QUOTA, retry_after_s=seconds))
    assert (error.key, error.placeholders) == (key, placeholders)


async def test_a_language_without_our_sentences_hears_them_in_english(
    house: House,
) -> None:
    house.server.script(answer())
    result = await house.say(language="et")
    assert speech(result) == "The language model gave no answer. Please try again."


async def test_who_is_removed_while_waiting_is_told(house: House) -> None:
    gate = asyncio.Event()
    house.server.default = answer(gate, "ok")
    others = [house.hass.async_create_task(house.say(user_id=None)) for _ in range(2)]
    await house.server.wait_chats(house.chats_before + 2)
    waiting = house.hass.async_create_task(house.say())
    await house.until(lambda: house.household.status().waiting == 1)
    house.hass.config_entries.async_remove_subentry(house.entry, "parent")
    assert speech(await waiting).startswith("This was stopped because")
    gate.set()
    assert [speech(result) for result in await asyncio.gather(*others)] == ["ok"] * 2


class TestWithAQuota:
    @pytest.fixture
    def member_data(self) -> dict[str, Any]:
        return {"quota_tokens": 150}

    @pytest.fixture
    def agent_data(self) -> dict[str, Any]:
        return {}

    async def _use_up(self, house: House) -> ConversationResult:
        return await house.say("word " * 150)

    async def test_a_quota_that_is_used_up_is_told(
        self, house: House, caplog: pytest.LogCaptureFixture
    ) -> None:
        await self._use_up(house)
        caplog.clear()
        caplog.set_level(logging.INFO)
        result = await house.say("hello")
        assert is_error(result)
        assert speech(result) == (
            "Your quota for today is used up. It starts again at midnight."
        )
        (line,) = lines(caplog)
        assert line.levelno == logging.INFO

    async def test_an_answer_that_uses_it_up_is_kept_and_told(
        self, house: House
    ) -> None:
        house.server.script(answer(*["la "] * 60))
        result = await house.say("word " * 110)
        assert speech(result).startswith("la la ")
        assert speech(result).endswith("It starts again at midnight.")
        assert house.is_at_rest()


async def test_a_sentence_is_an_exception_of_home_assistant() -> None:
    error = AgentError("too_many_steps", {"steps": "10"})
    assert error.translation_domain == "fair_share"
    assert error.translation_placeholders == {"steps": "10"}
