"""Keeping the tallies of a load run by the household's own accounts."""

from collections.abc import Sequence
from typing import Self

from .accounts import Account, member_accounts
from .api import Connection
from .tally import Tally


class Bookkeeper:
    """Writes into the tallies what the accounts say since it began."""

    def __init__(self, connection: Connection, tallies: Sequence[Tally]) -> None:
        self.tallies = tallies
        self._connection = connection
        self._before: dict[str, Account] = {}

    async def begin(self) -> Self:
        """Count from now on."""
        self._before = await member_accounts(self._connection)
        return self

    async def refresh(self) -> None:
        """Take over what has been charged up to now."""
        now = await member_accounts(self._connection)
        for tally in self.tallies:
            before = self._before[tally.member_id]
            tally.charge = now[tally.member_id].charge - before.charge

    async def note_answer(self, tally: Tally) -> None:
        """Take over the account of the request that has just been answered."""
        account = (await member_accounts(self._connection))[tally.member_id]
        if account.last is not None:
            tally.records.append(account.last)
