"""Requests as the documentation shows them."""

from collections.abc import Mapping
from dataclasses import dataclass
import json
from pathlib import Path
import re
from typing import Any

_DOCS = Path(__file__).parent.parent / "docs"
_HEADER = re.compile(r"-H '([^:]+): ([^']*)'")
_DATA = re.compile(r"-d '(.*?)'\n", re.DOTALL)


@dataclass(frozen=True, slots=True)
class DocumentedRequest:
    """One call of curl: its headers, names in lower case, and its body."""

    headers: Mapping[str, str]
    body: Mapping[str, Any]


def documented_request(page: str) -> DocumentedRequest:
    """Return the only request that a page shows."""
    (call,) = re.findall(r"```sh\n(curl .*?)```", (_DOCS / page).read_text(), re.DOTALL)
    (data,) = _DATA.findall(call)
    headers = {name.lower(): value for name, value in _HEADER.findall(call)}
    return DocumentedRequest(headers, json.loads(data))
