"""The demo for somebody at a browser: there until it is stopped."""

from pathlib import Path

from .errors import DemoError
from .onboarding import Server
from .people import PASSWORD, PEOPLE
from .running import running_demo

_USUAL_PORT = 8123


async def be_there_to_talk_to(folder: Path, server: Server | None) -> None:
    """Start everything, say where it is and stay. Raises ``DemoError``."""
    async with running_demo(folder, server, preferred_port=_USUAL_PORT) as demo:
        print(_welcome(demo.home_assistant.url), flush=True)
        code = await demo.home_assistant.process.wait()
        raise DemoError(
            f"Home Assistant ended by itself with code {code}.",
            log=demo.home_assistant.log,
        )


def _welcome(url: str) -> str:
    others = ", ".join(person.username for person in PEOPLE[1:])
    return f"""
  Home Assistant is running:  {url}
  Log in as:                  {PEOPLE[0].username}  (others: {others})
  Password:                   {PASSWORD}

  Open Assist (top right, or press "a") and ask something. "Turn on the kitchen light"
  is answered by Home Assistant itself, everything else by the language model.
  Who got what, and the quotas: Settings > Devices & services > Fair Share.

  Ctrl-C stops everything.
"""
