"""Providers made of rows: what a row of rows.toml says, as the class that an adapter is."""

from collections.abc import Mapping
from typing import Any, ClassVar

import httpx
from msgspec.structs import replace

from providers import guided
from providers.chat import ENGINE_WORDS
from providers.guided import JsonSchema, Output, Way
from providers.hosted.ruled import Ruled
from providers.losses import UNKNOWN, UNKNOWN_HINTS
from providers.provider import HINTS, PATHS, versioned
from providers.rows import ROWS, Row

_PLAIN: guided.Ways = {kind: Way("enforced", guided.as_response_format, plain=True) for kind in ("json_object", "json_schema")}


class Rowed(Ruled):
    """A subclass names its row: `class Groq(Rowed, row="groq")`; what it says itself goes before the row."""

    row: ClassVar[Row]

    def __init_subclass__(cls, row: str = "", **more: Any) -> None:
        super().__init_subclass__(**more)
        if row:
            cls.name, cls.row = row, ROWS[row]
            for key, value in _class_data(cls.row).items():
                if key not in vars(cls):
                    setattr(cls, key, value)

    def url(self, base_url: str, dialect: str, model: str = "", stream: bool = False) -> httpx.URL:
        """Below the path that the host has before its routes (/openai/v1), unless the base URL has a version segment already."""
        base = base_url.rstrip("/")
        if versioned(base) != base:
            base += httpx.URL(self.row.base_url).path.rstrip("/")
        path = PATHS.get(dialect)
        return super().url(base, dialect, model, stream) if path is None else httpx.URL(base + path)

    @property
    def guided(self) -> guided.Ways:
        ways: guided.Ways = {kind: _PLAIN[kind] for kind in self.row.guided}
        looked_at = {kind for kind, how in self.row.guided.items() if how == "validated" and not self.vouched}
        return {kind: replace(way, how="validated") if kind in looked_at else way for kind, way in ways.items()}

    def _is_held(self, output: Output) -> bool:
        """Of hosts that hold to strict schemas alone; one without a name, asked for in engines' words, is said as a strict one."""
        if self.row.guided.get(guided.kind_of(output)) != "strict" or not isinstance(output, JsonSchema) or self.vouched:
            return True
        return output.strict is True or (output.strict is None and output.name is None)


def plain(name: str) -> type[Rowed]:
    """The adapter of a row that needs no code."""
    return type(f"Row_{name}", (Rowed,), {"__doc__": f"{ROWS[name].title}, as its row says."}, row=name)


def _class_data(row: Row) -> Mapping[str, Any]:
    return {
        "dialects": row.dialects,
        "default_base_url": row.base_url,
        "rules": row.rules,
        "refuses": ((ENGINE_WORDS | UNKNOWN) - row.takes) | row.refuses,
        "hints": (HINTS | UNKNOWN_HINTS) - row.takes,
        "rename": row.rename,
        "strict_tools": row.strict_tools,
        "stops_after_calls": row.stops_after_calls,
        "tells_allowance": row.tells_allowance,
        "asks_usage": row.asks_usage,
    }
