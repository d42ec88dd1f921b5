"""Which server probably still has a conversation's prompt."""

from custom_components.fair_share.household.prefixes import Prefix, PrefixMemory


def test_the_latest_answer_of_a_conversation_is_remembered() -> None:
    memory = PrefixMemory()
    memory.put("talk", Prefix("one", 10))
    memory.put("talk", Prefix("two", 20))
    assert memory.get("talk") == Prefix("two", 20)
    assert memory.get("other") is None


def test_without_a_conversation_nothing_is_remembered() -> None:
    memory = PrefixMemory()
    memory.put(None, Prefix("one", 10))
    assert memory.get(None) is None


def test_the_oldest_conversation_is_forgotten_first() -> None:
    memory = PrefixMemory()
    for number in range(64):
        memory.put(str(number), Prefix("one", number))
    memory.put("0", Prefix("one", 1))
    memory.put("new", Prefix("one", 1))
    assert memory.get("1") is None
    assert memory.get("0") is not None
