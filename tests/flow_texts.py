"""Which texts the dialogs need, learned from what they show while they run.

``record`` replaces the methods by which a dialog shows something; the keys that
collect in ``Shown`` are those of ``translations/en.json``.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
import json
from pathlib import Path
import string
from typing import Any
from unittest.mock import patch

from homeassistant.config_entries import ConfigSubentryFlow, OptionsFlow
from homeassistant.data_entry_flow import FlowHandler, section
from homeassistant.helpers.selector import SelectSelector

PACKAGE = Path(__file__).parents[1] / "custom_components" / "fair_share"
TRANSLATIONS: dict[str, Any] = json.loads(
    (PACKAGE / "translations" / "en.json").read_text(encoding="utf-8")
)


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return all texts by their full key."""
    flat: dict[str, str] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


TEXTS = flatten(TRANSLATIONS)


def placeholders(text: str) -> set[str]:
    """Return the names in braces in a text."""
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


@dataclass
class Shown:
    """What the dialogs have shown: the keys, and the gaps in placeholders."""

    keys: set[str] = field(default_factory=set)
    unfilled: set[str] = field(default_factory=set)

    @property
    def missing(self) -> set[str]:
        """The keys that have no text."""
        return self.keys - set(TEXTS)

    def form(self, flow: FlowHandler[Any, Any, Any], **shown: Any) -> None:
        """Note what a form needs."""
        root = _root(flow)
        step = f"{root}.step.{shown['step_id']}"
        self.keys.add(f"{step}.title")
        if (schema := shown.get("data_schema")) is not None:
            self._fields(step, schema.schema)
        self.keys |= {
            f"{root}.error.{key}" for key in (shown.get("errors") or {}).values()
        }
        self._fill(f"{step}.", shown)

    def menu(self, flow: FlowHandler[Any, Any, Any], **shown: Any) -> None:
        """Note what a menu needs."""
        step = f"{_root(flow)}.step.{shown['step_id']}"
        self.keys.add(f"{step}.title")
        for option in shown["menu_options"]:
            self.keys.add(f"{step}.menu_options.{option}")
            self.keys.add(f"{step}.menu_option_descriptions.{option}")

    def progress(self, flow: FlowHandler[Any, Any, Any], **shown: Any) -> None:
        """Note what waiting needs."""
        text = f"{_root(flow)}.progress.{shown['progress_action']}"
        self.keys |= {f"{_root(flow)}.step.{shown['step_id']}.title", text}
        self._fill(text, shown)

    def abort(self, flow: FlowHandler[Any, Any, Any], **shown: Any) -> None:
        """Note what an end without success needs; Home Assistant has some texts."""
        if shown.get("translation_domain") is None:
            self.keys.add(f"{_root(flow)}.abort.{shown['reason']}")

    def _fields(self, path: str, schema: Mapping[Any, Any]) -> None:
        for marker, value in schema.items():
            if isinstance(value, section):
                inner = f"{path}.sections.{marker.schema}"
                self.keys.add(f"{inner}.name")
                self._fields(inner, value.schema.schema)
                continue
            self.keys.add(f"{path}.data.{marker.schema}")
            self.keys.add(f"{path}.data_description.{marker.schema}")
            if isinstance(value, SelectSelector):
                self._options(value.config)

    def _options(self, config: Mapping[str, Any]) -> None:
        if (selector := config.get("translation_key")) is None:
            return
        for option in config["options"]:
            # An option with a name of its own (a member, a device) needs no text.
            plain = option if isinstance(option, str) else option["value"]
            if option in (plain, {"value": plain, "label": plain}):
                self.keys.add(f"selector.{selector}.options.{plain}")

    def _fill(self, prefix: str, shown: Mapping[str, Any]) -> None:
        given = set(shown.get("description_placeholders") or {})
        self.unfilled |= {
            key
            for key, text in TEXTS.items()
            if key.startswith(prefix) and placeholders(text) - given
        }


@contextmanager
def record() -> Iterator[Shown]:
    """Note everything that dialogs show meanwhile."""
    shown = Shown()
    methods = {
        "async_show_form": shown.form,
        "async_show_menu": shown.menu,
        "async_show_progress": shown.progress,
        "async_abort": shown.abort,
    }
    patches = [
        patch.object(FlowHandler, name, _noting(getattr(FlowHandler, name), note))
        for name, note in methods.items()
    ]
    for each in patches:
        each.start()
    yield shown
    for each in patches:
        each.stop()


def _noting(method: Any, note: Any) -> Any:
    def noting(flow: FlowHandler[Any, Any, Any], **shown: Any) -> Any:
        note(flow, **shown)
        return method(flow, **shown)

    return noting


def _root(flow: FlowHandler[Any, Any, Any]) -> str:
    match flow:
        case ConfigSubentryFlow():
            return f"config_subentries.{flow.handler[1]}"
        case OptionsFlow():
            return "options"
        case _:
            return "config"
