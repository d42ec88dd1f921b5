"""How often somebody may do something: a token bucket, on a clock that is injected."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(slots=True)
class Bucket:
    """Holds at most ``size``, gains ``per_s`` a second; each use takes one out."""

    size: float
    per_s: float
    held: float
    as_of_s: float

    def wait_s(self, now: float) -> float:
        """Return for how many seconds it is empty; 0 if something can be taken."""
        self.held = min(self.size, self.held + (now - self.as_of_s) * self.per_s)
        self.as_of_s = now
        return max(0.0, (1 - self.held) / self.per_s)

    def take(self) -> None:
        """Take one out."""
        self.held -= 1


class Paces:
    """A bucket for each of those that were seen lately.

    The one that was not seen for longest is forgotten when there are ``most``.
    """

    def __init__(self, most: int) -> None:
        """Have seen nobody."""
        self._most = most
        self._buckets: OrderedDict[Hashable, Bucket] = OrderedDict()

    def bucket(self, who: Hashable, size: float, per_s: float, now: float) -> Bucket:
        """Return somebody's bucket, full if it is new, with this size and gain."""
        bucket = self._buckets.get(who)
        if bucket is None:
            bucket = self._buckets[who] = Bucket(size, per_s, size, now)
            if len(self._buckets) > self._most:
                self._buckets.popitem(last=False)
        elif (bucket.size, bucket.per_s) != (size, per_s):
            bucket.wait_s(now)
            bucket.size, bucket.per_s = size, per_s
            bucket.held = min(bucket.held, size)
        self._buckets.move_to_end(who)
        return bucket
