"""Asking the household's assistant, through Home Assistant's own Assist pipeline."""

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

from .api import Connection, Json


@dataclass(frozen=True, slots=True)
class Answer:
    """What the assistant said; ``failed`` if it is an error that it reports."""

    text: str
    failed: bool = False


async def ask(
    connection: Connection,
    text: str,
    *,
    pipeline_id: str | None = None,
    device_id: str | None = None,
    on_text: Callable[[str], None] = lambda _: None,
) -> Answer:
    """Ask as the connection's user and wait for the whole answer.

    ``device_id`` is the satellite that is spoken to, if any. ``on_text`` gets each
    piece of the answer when it comes. Cancelling it cancels the question.
    """
    fields: Json = {
        "start_stage": "intent",
        "end_stage": "intent",
        "input": {"text": text},
    }
    if pipeline_id is not None:
        fields["pipeline"] = pipeline_id
    if device_id is not None:
        fields["device_id"] = device_id
    answer = Answer("Home Assistant gave no answer.", failed=True)
    async with aclosing(connection.events("assist_pipeline/run", **fields)) as events:
        async for event in events:
            match event["type"]:
                case "intent-progress":
                    on_text(_piece(event["data"]))
                case "intent-end":
                    answer = _answer(event["data"]["intent_output"]["response"])
                case "error":
                    answer = Answer(event["data"]["message"], failed=True)
                case "run-end":
                    break
    return answer


def _piece(progress: Json) -> str:
    delta: Json = progress.get("chat_log_delta") or {}
    return delta.get("content") or ""


def _answer(response: Json) -> Answer:
    speech: str = response["speech"].get("plain", {}).get("speech") or ""
    return Answer(speech, failed=response["response_type"] == "error")
