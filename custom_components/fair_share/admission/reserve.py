"""The share of service that is kept for background work."""

from .entry import Entry
from .model import Workload


class BackgroundReserve:
    """Counts what background work is owed.

    While background work waits it is owed ``share / (1 - share)`` of whatever is
    served to the rest, up to ``most``, and service that it gets pays that off. Once
    what is owed covers its next request, that request goes first. Over any time in
    which it waits it so gets at least ``share`` of all service, less ``most`` and one
    request. No slot has to stand idle for it.
    """

    __slots__ = ("most", "owed", "share")

    def __init__(self, share: float, most: float) -> None:
        """Reserve ``share`` (0 to below 1); ``most`` is in weighted tokens."""
        self.share = share
        self.most = most
        self.owed = 0.0

    def charged(self, entry: Entry, delta: float, *, waiting: bool) -> None:
        """Note a charge; ``waiting`` tells whether background work waits now."""
        if entry.leaf.workload is Workload.BACKGROUND:
            # A refund gives back no more than this request had paid off.
            paid = max(-entry.paid_off, min(delta, self.owed))
            self.owed -= paid
            entry.paid_off += paid
        elif waiting:
            owed = self.owed + delta * self.share / (1 - self.share)
            self.owed = max(0.0, min(self.most, owed))

    def covers(self, cost: float) -> bool:
        """Whether what is owed is enough for a request of this cost."""
        return self.share > 0 and self.owed >= min(cost, self.most)
