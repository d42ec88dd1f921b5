"""Those who use the model during a load run, each in their own manner."""

import asyncio
from dataclasses import dataclass
from itertools import count, cycle

from .api import Connection
from .ask import ask
from .bookkeeper import Bookkeeper
from .progress import say
from .tally import Tally
from .texts import CHAT_QUESTIONS, VOICE_COMMANDS, long_text

_VOICE_INTERVAL_S = 5.0
_THINKING_S = 1.0
_SETTLING_S = 2.0  # until the others have begun


@dataclass(frozen=True, slots=True)
class Client:
    """Somebody logged in who asks; ``device_id`` is the satellite they speak to."""

    connection: Connection
    tally: Tally
    bookkeeper: Bookkeeper
    pipeline_id: str | None = None
    device_id: str | None = None

    async def ask(self, text: str) -> None:
        """Ask, wait for the answer and count it."""
        self.tally.submitted += 1
        answer = await ask(
            self.connection,
            text,
            pipeline_id=self.pipeline_id,
            device_id=self.device_id,
        )
        if answer.failed:
            self.tally.failed += 1
            say(f"{self.tally.name}: {answer.text}")
            await asyncio.sleep(_THINKING_S)  # not to fail again at once
        else:
            await self.bookkeeper.note_answer(self.tally)


async def speak(client: Client) -> None:
    """Say something every few seconds, whether or not the last was answered."""
    async with asyncio.TaskGroup() as commands:
        for text in cycle(VOICE_COMMANDS):
            commands.create_task(client.ask(text))
            await asyncio.sleep(_VOICE_INTERVAL_S)


async def chat(client: Client) -> None:
    """Ask, read the answer, think for a moment, ask again."""
    for text in cycle(CHAT_QUESTIONS):
        await client.ask(text)
        await asyncio.sleep(_THINKING_S)


async def summarise(client: Client, outstanding: int) -> None:
    """Have so many long texts summarised at any time, one after the other."""
    await asyncio.sleep(_SETTLING_S)
    numbers = count(1)

    async def one_after_the_other() -> None:
        for number in numbers:
            await client.ask(long_text(number))

    async with asyncio.TaskGroup() as summaries:
        for _ in range(outstanding):
            summaries.create_task(one_after_the_other())
