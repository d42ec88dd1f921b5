"""The household's own accounts, as its actions tell them."""

from dataclasses import dataclass

from .api import Connection, Json
from .records import Record, Tokens


@dataclass(frozen=True, slots=True)
class Account:
    """What a member has used so far; ``quota_left`` is ``None`` without a quota."""

    requests: int
    tokens: Tokens
    charge: float
    quota_left: int | None
    last: Record | None


async def member_accounts(connection: Connection) -> dict[str, Account]:
    """Return the account of each member, by its node in the share tree."""
    usage = await connection.action("fair_share.get_usage")
    return {member["id"]: _account(member) for member in usage["members"]}


async def fairness(connection: Connection) -> tuple[float, float]:
    """Return the fairness gap and its bound."""
    queue = await connection.action("fair_share.get_queue")
    return queue["fairness_gap"], queue["fairness_bound"]


def _account(member: Json) -> Account:
    last = member["last_request"]
    return Account(
        requests=member["requests"],
        tokens=_tokens(member),
        charge=member["charge"],
        quota_left=member["quota"]["remaining_tokens"],
        last=None if last is None else _record(last),
    )


def _record(request: Json) -> Record:
    return Record(
        wait_s=request["wait_s"],
        ttft_s=request["ttft_s"],
        tokens=_tokens(request),
        charge=request["charge"],
    )


def _tokens(counts: Json) -> Tokens:
    cached = counts["cached_tokens"]
    return Tokens(counts["prompt_tokens"] - cached, cached, counts["output_tokens"])
