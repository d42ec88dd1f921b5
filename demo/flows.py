"""Filling in the integration's dialogs over the REST API, as the frontend does."""

import asyncio
from collections.abc import Mapping
import json
from pathlib import Path

from .api import Api, ApiError, Json
from .errors import DemoError

CONFIG_FLOW = "/api/config/config_entries/flow"
SUBENTRY_FLOW = "/api/config/config_entries/subentries/flow"

_TEXTS = (
    Path(__file__).resolve().parent.parent
    / "custom_components"
    / "fair_share"
    / "translations"
    / "en.json"
)
_PROGRESS_POLL_S = 0.5


async def run_flow(
    api: Api,
    path: str,
    handler: str | list[str],
    answers: Mapping[str, Json],
    *,
    subentry_id: str | None = None,
) -> Json:
    """Answer the steps of a dialog by their names until it is done.

    Returns the last step. With a ``subentry_id`` that subentry is changed, else
    something is added. Raises ``DemoError`` with what the dialog says of an answer that
    it does not take, ``ApiError`` when it ends for another reason.
    """
    start: Json = {"handler": handler}
    if subentry_id is not None:
        start["subentry_id"] = subentry_id
    step = await api.post(path, start)
    while step["type"] not in ("create_entry", "abort"):
        url = f"{path}/{step['flow_id']}"
        if step.get("errors"):
            raise DemoError(_explain(step["errors"]))
        if step["type"] == "progress":
            await asyncio.sleep(_PROGRESS_POLL_S)
            step = await api.get(url)
        else:
            step = await api.post(url, answers[step["step_id"]])
    if step["type"] == "abort" and step["reason"] != "reconfigure_successful":
        raise ApiError(f"its dialog ended early: {step['reason']}")
    return step


def _explain(errors: Mapping[str, str]) -> str:
    texts = json.loads(_TEXTS.read_text(encoding="utf-8"))["config"]["error"]
    return " ".join(texts.get(error, error) for error in errors.values())
