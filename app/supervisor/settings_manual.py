"""The operator's table of settings, made from the settings themselves."""

from dataclasses import fields
from typing import Any

from app.settings import Settings, environment_name


def settings_table() -> str:
    """The table as Markdown. docs/settings.md holds a copy; a test compares the two."""
    rows = [f"| `{environment_name(each)}` | {_default(each.default)} | {each.metadata['meaning']} |" for each in fields(Settings)]
    return "\n".join(["| Variable | Default | Meaning |", "|---|---|---|", *rows])


def _default(value: Any) -> str:
    return f"`{value}`" if str(value) else "(empty)"
