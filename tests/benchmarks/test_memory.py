"""What an engine can hold."""

from benchmarks.simulator.memory import PagedPool, SlotMemory
from benchmarks.simulator.prefix_cache import PrefixCache


def test_a_pool_hands_out_whole_blocks() -> None:
    pool = PagedPool(100, block_tokens=16)
    assert pool.longest_tokens == 96
    assert pool.reserve("a", 17)
    assert pool.reserve("b", 64)
    assert not pool.reserve("c", 1)


def test_a_sequence_grows_inside_its_last_block_for_nothing() -> None:
    pool = PagedPool(32, block_tokens=16)
    assert pool.reserve("a", 1)
    assert pool.reserve("b", 1)
    assert pool.reserve("a", 16)
    assert not pool.reserve("a", 17)


def test_freed_memory_can_be_had_again() -> None:
    pool = PagedPool(10)
    assert pool.reserve("a", 10)
    pool.free("a")
    pool.free("never here")
    assert pool.reserve("b", 10)


def test_slots_have_memory_of_their_own() -> None:
    slots = SlotMemory(2, context_tokens=50)
    assert slots.longest_tokens == 50
    assert slots.reserve("a", 50)
    assert slots.reserve("b", 50)
    assert not slots.reserve("c", 1)
    assert not slots.reserve("a", 51)
    slots.free("a")
    assert slots.reserve("c", 1)


def test_a_prefix_is_handed_over_once() -> None:
    cache = PrefixCache(100)
    cache.keep("a", 60)
    assert (cache.peek("a"), cache.take("a"), cache.take("a")) == (60, 60, 0)


def test_the_oldest_prefix_is_lost_first() -> None:
    cache = PrefixCache(100)
    for name in ("a", "b", "c"):
        cache.keep(name, 40)
    assert [cache.peek(name) for name in ("a", "b", "c")] == [0, 40, 40]


def test_a_cache_without_room_loses_everything() -> None:
    cache = PrefixCache(0)
    cache.keep("a", 1)
    assert cache.take("a") == 0
