"""How much of a conversation is sent when not all of it fits."""

import time
from typing import Any

import pytest

from custom_components.fair_share.admission.model import Rejected, RejectReason
from custom_components.fair_share.agents.history import (
    first_turn_to_send,
    most_tokens,
)
from tests.agents.conftest import LOOK, House, is_error, speech
from tests.fake_server import Call, answer


class Counter:
    """Counts exactly: a half of what was estimated."""

    def __init__(self, fixed: int, turns: list[int]) -> None:
        self.fixed, self.turns = fixed, turns
        self.counted: list[int] = []

    async def __call__(self, first_turn: int) -> int:
        self.counted.append(first_turn)
        return (self.fixed + sum(self.turns[first_turn:])) // 2


async def test_what_surely_fits_is_not_even_counted() -> None:
    count = Counter(100, [50, 50])
    assert await first_turn_to_send(100, [50, 50], 200, count) == 0
    assert count.counted == []


async def test_what_fits_when_counted_is_sent_whole() -> None:
    count = Counter(100, [50, 50])
    assert await first_turn_to_send(100, [50, 50], 100, count) == 0
    assert count.counted == [0]


@pytest.mark.parametrize(
    ("budget", "first"), [(290, 3), (200, 6), (110, 9), (101, 9), (100, 9)]
)
async def test_the_oldest_turns_go_until_there_is_room_for_some_more(
    budget: int, first: int
) -> None:
    turns = [50] * 10
    count = Counter(100, turns)
    assert await first_turn_to_send(100, turns, budget, count) == first
    assert len(count.counted) <= 2


async def test_where_a_conversation_began_it_begins_again() -> None:
    turns = [50] * 10
    count = Counter(100, turns)
    assert await first_turn_to_send(100, turns, 200, count, first_turn=6) == 6


async def test_a_newest_turn_that_does_not_fit_alone_is_refused() -> None:
    count = Counter(100, [50, 400])
    with pytest.raises(Rejected) as refused:
        await first_turn_to_send(100, [50, 400], 200, count)
    assert refused.value.reason is RejectReason.TOO_LONG
    assert refused.value.limit_tokens == 200


async def test_wrong_estimates_end_after_a_handful_of_counts() -> None:
    counted: list[int] = []

    async def count(first_turn: int) -> int:
        counted.append(first_turn)
        return 1000 - first_turn

    with pytest.raises(Rejected):
        await first_turn_to_send(10, [1] * 30, 20, count)
    assert len(counted) <= 5


async def test_wrong_estimates_end_with_the_newest_turn_if_it_fits() -> None:
    async def count(first_turn: int) -> int:
        return 20 if first_turn == 29 else 21

    assert await first_turn_to_send(10, [1] * 30, 20, count) == 29


async def test_wrong_estimates_end_in_a_refusal_if_not_even_the_newest_turn_fits() -> (
    None
):
    async def count(_first_turn: int) -> int:
        return 21

    with pytest.raises(Rejected) as refused:
        await first_turn_to_send(10, [1] * 60, 20, count)
    assert refused.value.limit_tokens == 20


@pytest.mark.parametrize("text", ["hello", "寝室" * 50, "õhtu 🙂" * 20])
def test_the_estimate_is_never_below_the_length_in_usual_tokens(text: str) -> None:
    assert most_tokens([{"role": "user", "content": text}]) >= len(text)


def test_a_text_of_megabytes_does_not_hold_everything_up() -> None:
    messages = [{"role": "tool", "content": '"\n' * 8_000_000}]
    began = time.thread_time()
    assert most_tokens(messages) >= 8_000_000
    assert time.thread_time() - began < 0.1


def test_a_picture_counts_as_a_picture() -> None:
    image = {"type": "image_url", "image_url": {"url": "x" * 1_000_000}}
    parts = [{"type": "text", "text": "what is this?"}, image]
    assert 1000 < most_tokens([{"role": "user", "content": parts}]) < 2000


WORDS = "word " * 60


class TestWithASmallCap:
    """The fake server counts words, so sizes are exact."""

    @pytest.fixture
    def agent_data(self) -> dict[str, Any]:
        return {}

    @pytest.fixture
    def member_data(self) -> dict[str, Any]:
        return {"context_tokens": 300}

    async def test_old_turns_are_left_out_as_a_whole(self, house: House) -> None:
        conversation_id = None
        for number in range(6):
            house.server.script(answer(f"answer{number}"))
            result = await house.say(f"question{number} {WORDS}", conversation_id)
            conversation_id = result.conversation_id
            assert speech(result) == f"answer{number}"
        sizes = [house.server.count_prompt(body) for body in house.sent]
        assert max(sizes) < 300
        messages = house.sent_messages()
        roles = [m["role"] for m in messages]
        assert roles[:2] == ["system", "user"]
        assert roles[-1] == "user"
        assert "question5" in messages[-1]["content"]
        assert "question0" not in str(messages)
        assert len(house.contents(result)) == 12

    async def test_the_beginning_of_the_requests_changes_seldom(
        self, house: House
    ) -> None:
        conversation_id = None
        for number in range(30):
            result = await house.say(f"question{number} a b c", conversation_id)
            conversation_id = result.conversation_id
        oldest = [body["messages"][1]["content"] for body in house.sent]
        assert "question0 " not in oldest[-1]
        assert len(set(oldest)) <= 6

    async def test_a_question_that_is_too_long_is_told(self, house: House) -> None:
        result = await house.say(WORDS * 6)
        assert is_error(result)
        assert speech(result).startswith("This is too long for the language model")
        assert house.sent == []

    async def test_few_counts_are_needed(self, house: House) -> None:
        conversation_id = None
        for number in range(5):
            result = await house.say(f"question{number} {WORDS}", conversation_id)
            conversation_id = result.conversation_id
        counts = [r for r in house.server.requests if "input_tokens" in r.path]
        assert len(counts) <= 5 * 3


class TestWithASmallServer:
    @pytest.fixture
    def member_data(self) -> dict[str, Any]:
        return {"context_tokens": 250}

    async def test_tools_and_system_prompt_always_stay(self, house: House) -> None:
        conversation_id = None
        for number in range(4):
            result = await house.say(f"question{number} {WORDS}", conversation_id)
            conversation_id = result.conversation_id
        assert all(len(body["tools"]) == 3 for body in house.sent)
        assert {body["messages"][0]["role"] for body in house.sent} == {"system"}

    async def test_a_tool_that_tells_too_much_is_told(self, house: House) -> None:
        house.api.tools[LOOK].result = {"text": WORDS * 10}
        house.server.script(answer(Call(LOOK)))
        result = await house.say("look")
        assert speech(result).startswith("This is too long for the language model")
        assert len(house.sent) == 1
        assert house.is_at_rest()
