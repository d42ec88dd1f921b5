"""What servers probably still have of prompts."""

from dataclasses import replace

import pytest

from custom_components.fair_share.admission.model import ServerCapacity
from custom_components.fair_share.household.prefixes import Answered, PrefixMemory

ONE = ServerCapacity("one", slots=2, context_tokens=500)
TWO = ServerCapacity("two", slots=2, context_tokens=2000, kv_tokens=2000)

ANSWER = Answered(
    server_id="one",
    conversation_id="talk",
    opening_id="kitchen",
    prompt_tokens=100,
    cached_tokens=0,
    output_tokens=20,
)
OTHER_WORK = Answered("one", None, None, 600, 0, 0)


@pytest.fixture
def memory() -> PrefixMemory:
    """Two servers that hold 1000 and 2000 tokens, and nothing yet."""
    memory = PrefixMemory()
    memory.note_server(ONE)
    memory.note_server(TWO)
    return memory


def test_a_server_holds_the_whole_conversation_that_it_answered(
    memory: PrefixMemory,
) -> None:
    memory.note(ANSWER)
    assert memory.expected("talk", None) == {"one": 120}
    assert memory.expected("other talk", None) == {}


def test_several_servers_may_hold_parts_of_a_conversation(memory: PrefixMemory) -> None:
    memory.note(ANSWER)
    memory.note(replace(ANSWER, server_id="two", prompt_tokens=150))
    assert memory.expected("talk", None) == {"one": 120, "two": 170}


def test_how_long_an_opening_is_shows_the_next_first_question(
    memory: PrefixMemory,
) -> None:
    memory.note(ANSWER)
    assert memory.expected("new", "kitchen") == {}
    assert memory.has_opening("kitchen", "one")
    memory.note(replace(ANSWER, conversation_id="new", cached_tokens=60))
    assert memory.expected("newer", "kitchen") == {"one": 60}


def test_a_later_question_does_not_lengthen_the_opening(memory: PrefixMemory) -> None:
    memory.note(ANSWER)
    memory.note(replace(ANSWER, prompt_tokens=200, cached_tokens=120))
    assert memory.expected("new", "kitchen") == {}


def test_a_length_that_was_learnt_holds_on_every_server(memory: PrefixMemory) -> None:
    memory.note(ANSWER)
    memory.note(replace(ANSWER, conversation_id="new", cached_tokens=60))
    memory.note(replace(ANSWER, server_id="two", conversation_id=None))
    assert memory.expected(None, "kitchen") == {"one": 60, "two": 60}


def test_what_was_not_used_while_the_server_worked_on_more_is_presumed_gone(
    memory: PrefixMemory,
) -> None:
    memory.note(ANSWER)
    memory.note(OTHER_WORK)
    assert memory.expected("talk", None) == {"one": 120}
    memory.note(OTHER_WORK)
    assert memory.expected("talk", None) == {}
    assert not memory.has_opening("kitchen", "one")


def test_a_server_that_keeps_more_than_was_presumed_is_trusted_with_it(
    memory: PrefixMemory,
) -> None:
    memory.note(ANSWER)
    memory.note(OTHER_WORK)
    memory.note(OTHER_WORK)
    memory.note(replace(ANSWER, prompt_tokens=130, cached_tokens=120))
    memory.note(OTHER_WORK)
    memory.note(OTHER_WORK)
    assert memory.expected("talk", None) == {"one": 150}


def test_a_server_that_keeps_less_than_was_presumed_is_trusted_with_less(
    memory: PrefixMemory,
) -> None:
    memory.note(ANSWER)
    memory.note(OTHER_WORK)
    memory.note(replace(ANSWER, prompt_tokens=130, cached_tokens=0))
    memory.note(OTHER_WORK)
    assert memory.expected("talk", None) == {}


def test_one_prompt_that_began_otherwise_does_not_make_a_server_forgetful(
    memory: PrefixMemory,
) -> None:
    memory.note(ANSWER)
    memory.note(replace(ANSWER, cached_tokens=0))
    memory.note(replace(OTHER_WORK, prompt_tokens=100))
    assert memory.expected("talk", None) == {"one": 120}


def test_an_opening_that_was_not_found_again_is_held_from_now_on(
    memory: PrefixMemory,
) -> None:
    memory.note(ANSWER)
    memory.note(replace(ANSWER, conversation_id="new", cached_tokens=60))
    memory.note(OTHER_WORK)
    memory.note(replace(ANSWER, conversation_id="newer", cached_tokens=0))
    assert memory.expected(None, "kitchen") == {"one": 60}


def test_a_server_that_was_started_anew_holds_nothing(memory: PrefixMemory) -> None:
    memory.note(ANSWER)
    memory.forget_server("one")
    assert memory.expected("talk", "kitchen") == {}
    assert not memory.has_opening("kitchen", "one")
    memory.note(ANSWER)
    assert memory.expected("talk", "kitchen") == {}
    assert memory.note_server(ONE)
    assert not memory.note_server(ONE)


def test_the_oldest_conversation_is_forgotten_first(memory: PrefixMemory) -> None:
    small = replace(ANSWER, prompt_tokens=1, output_tokens=1, opening_id=None)
    for number in range(64):
        memory.note(replace(small, conversation_id=str(number)))
    memory.note(replace(small, conversation_id="0"))
    memory.note(replace(small, conversation_id="new"))
    assert memory.expected("1", None) == {}
    assert memory.expected("0", None) == {"one": 2}
