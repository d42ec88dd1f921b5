"""What the demo has to know of the household that it set up."""

from dataclasses import asdict, dataclass
import json
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Household:
    """Names by which Home Assistant knows the parts of the demo's household.

    ``node_ids`` has each person's node in the share tree, by their login.
    """

    entry_id: str
    server_id: str
    server_url: str
    node_ids: dict[str, str]
    satellite_device_id: str
    summaries_pipeline_id: str

    def save(self, folder: Path) -> None:
        """Remember it; only a household that is complete is ever saved."""
        _file(folder).write_text(json.dumps(asdict(self), indent=2), encoding="utf-8")


def load_household(folder: Path) -> Household | None:
    """Return the household of an earlier run, ``None`` if none was completed."""
    try:
        return Household(**json.loads(_file(folder).read_text(encoding="utf-8")))
    except FileNotFoundError, ValueError, TypeError:
        return None


def _file(folder: Path) -> Path:
    return folder / "household.json"
