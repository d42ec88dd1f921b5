"""Wrong keys: who tries many of them has to wait, and nobody else has."""

from .pace import Paces

_TRIES = 10
_PER_S = 1 / 6
_MOST_ADDRESSES = 1024


class Lockout:
    """Counts wrong keys by address.

    A right key is never refused for the wrong ones that were tried from the same
    address, and Home Assistant's own bans hear nothing of them: a misconfigured program
    cannot lock the household out.
    """

    def __init__(self) -> None:
        """Have seen no wrong key."""
        self._paces = Paces(_MOST_ADDRESSES)

    def note_wrong(self, address: str, now: float) -> float:
        """Note a wrong key; return for how many seconds no further one is looked at.

        0 for the first few.
        """
        bucket = self._paces.bucket(address, _TRIES, _PER_S, now)
        wait_s = bucket.wait_s(now)
        if wait_s <= 0:
            bucket.take()
        return wait_s
