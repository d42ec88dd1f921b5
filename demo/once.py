"""One question and its answer, without a browser."""

from dataclasses import dataclass
import json
from pathlib import Path
import sys

from .accounts import Account, member_accounts
from .api import Json
from .ask import ask
from .errors import DemoError
from .onboarding import Server
from .people import PARENT, Person
from .progress import say
from .running import RunningDemo, running_demo
from .table import answer_table, console, seconds


@dataclass(frozen=True, slots=True)
class _Asked:
    """An answer, and the accounts of the member who asked before and after it."""

    text: str
    before: Account
    after: Account

    @property
    def times(self) -> tuple[float | None, float | None]:
        """Wait and time to the first token; none if the model was not asked."""
        if self.after.requests == self.before.requests or self.after.last is None:
            return None, None
        return self.after.last.wait_s, self.after.last.ttft_s


async def run_once(
    folder: Path, server: Server | None, asker: Person, text: str, *, as_json: bool
) -> None:
    """Ask, show the answer as it comes and what it cost. Raises ``DemoError``."""
    async with running_demo(folder, server) as demo:
        say(f"{asker.name} asks: {text}")
        asked = await _ask(demo, asker, text, show=not as_json)
    if as_json:
        print(json.dumps(_as_json(asker, asked)))
    else:
        console().print(answer_table(_cells(asker, asked)))


async def _ask(demo: RunningDemo, asker: Person, text: str, *, show: bool) -> _Asked:
    node_id = demo.household.node_ids[asker.username]
    parent, api = await demo.log_in(PARENT), await demo.log_in(asker)
    async with parent.connect() as accounts, api.connect() as connection:
        before = (await member_accounts(accounts))[node_id]
        answer = await ask(connection, text, on_text=_write if show else _keep_quiet)
        after = (await member_accounts(accounts))[node_id]
    if answer.failed:
        raise DemoError(
            f"The assistant could not answer: {answer.text}",
            log=demo.home_assistant.log,
        )
    if show:
        # What Home Assistant answers by itself does not come in pieces.
        print("" if after.requests > before.requests else answer.text, flush=True)
    return _Asked(answer.text, before, after)


def _write(piece: str) -> None:
    sys.stdout.write(piece)
    sys.stdout.flush()


def _keep_quiet(_piece: str) -> None:
    pass


def _as_json(asker: Person, asked: _Asked) -> Json:
    wait_s, ttft_s = asked.times
    tokens = asked.after.tokens - asked.before.tokens
    return {
        "answer": asked.text,
        "member": asker.username,
        "wait_s": wait_s,
        "ttft_s": ttft_s,
        "tokens": {
            "in": tokens.prompt,
            "cached": tokens.cached,
            "out": tokens.output,
        },
        "charge": round(asked.after.charge - asked.before.charge, 1),
        "quota_left": asked.after.quota_left,
    }


def _cells(asker: Person, asked: _Asked) -> dict[str, str]:
    wait_s, ttft_s = asked.times
    tokens = asked.after.tokens - asked.before.tokens
    left = asked.after.quota_left
    return {
        "who": asker.name,
        "wait": seconds(wait_s),
        "TTFT": seconds(ttft_s),
        "tokens in": f"{tokens.prompt:,}",
        "cached": f"{tokens.cached:,}",
        "out": f"{tokens.output:,}",
        "charge": f"{asked.after.charge - asked.before.charge:,.1f}",
        "quota left": "no quota" if left is None else f"{left:,}",
    }
