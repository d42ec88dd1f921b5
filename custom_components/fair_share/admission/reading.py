"""How a running request comes along with its prompt."""

from dataclasses import dataclass


@dataclass(slots=True)
class Reading:
    """How a request reads its prompt since its latest start.

    ``from_s`` is when the present part of the reading began, ``read_s`` how long the
    parts before it took: between them it may have rested. ``ended_s`` is when its last
    slice ended (or when it started), ``took_s`` how long that one took.
    ``in_slices`` tells that it can be left at the end of a slice, ``in_one_go`` that it
    must not be sliced any more. ``lost`` counts the slices, one after the other, that
    did not find what had been read before.
    """

    from_s: float = 0.0
    ended_s: float = 0.0
    took_s: float = 0.0
    read_s: float = 0.0
    in_slices: bool = False
    in_one_go: bool = False
    lost: int = 0

    def spent_s(self, now: float) -> float:
        """Return for how long it has been reading, without its rests."""
        return self.read_s + now - self.from_s
