"""What the demo has to know of the household that it set up."""

from dataclasses import asdict, dataclass
import json
from pathlib import Path

from .people import CHILD, GUEST


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
    agent_entity_id: str
    summaries_pipeline_id: str

    def save(self, folder: Path) -> None:
        """Remember it for the next run."""
        _file(folder).write_text(json.dumps(asdict(self), indent=2), encoding="utf-8")

    def is_written(self, storage: Path) -> bool:
        """Return whether Home Assistant has written all of it into its own files.

        It does so seconds after a change, each file in its own time.
        """
        evidence = {
            "auth_provider.homeassistant": GUEST.username,
            "person": CHILD.name,
            "core.config_entries": self.server_url,
            "core.device_registry": self.satellite_device_id,
            "core.entity_registry": self.agent_entity_id,
            "assist_pipeline.pipelines": self.agent_entity_id,
        }
        return all(
            _holds(storage / name, f'"{text}"') for name, text in evidence.items()
        )


def load_household(folder: Path) -> Household | None:
    """Return the household of an earlier run, ``None`` if none was completed."""
    try:
        return Household(**json.loads(_file(folder).read_text(encoding="utf-8")))
    except FileNotFoundError, ValueError, TypeError:
        return None


def forget_household(folder: Path) -> None:
    """Make the next run begin anew."""
    _file(folder).unlink(missing_ok=True)


def _file(folder: Path) -> Path:
    return folder / "household.json"


def _holds(file: Path, text: str) -> bool:
    try:
        return text in file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
