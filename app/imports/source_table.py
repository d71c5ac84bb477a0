"""A table of the source that remembers which of its keys were read, so that none can be forgotten."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast

from app.imports.report import Report

T = TypeVar("T")

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")
_MAX_SHOWN_KEY = 80
# Larger ones are not exact everywhere that they come to: Redis, JSON in a browser.
_MAX_WHOLE = 2**53


def join_path(path: str, key: str) -> str:
    """The path of a key in the table at `path`; empty: the file itself."""
    shown = key if _PLAIN_KEY.fullmatch(key) else repr(key[:_MAX_SHOWN_KEY])
    return f"{path}.{shown}" if path else shown


class SourceTable:
    """A table of the source, and its path there.

    Each reader takes a key as one kind of value. It returns None for a key that is absent, null or an empty text; a value of another kind
    is reported and counts as absent. report_unread() then reports every key, here and in the tables below, that nothing has read.
    """

    def __init__(self, values: Mapping[str, Any], path: str, report: Report) -> None:
        self.path = path
        self.report = report
        self._values = values
        self._unread = dict.fromkeys(key for key in values if key in self)
        self._tables: list[SourceTable] = []

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) not in (None, "")

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self._values)

    @property
    def unread(self) -> tuple[str, ...]:
        """The keys that nothing has read yet."""
        return tuple(self._unread)

    def path_of(self, key: str) -> str:
        return join_path(self.path, key)

    def read(self, key: str) -> Any:
        """The value, of whatever kind."""
        self._unread.pop(key, None)
        return self._values.get(key)

    def text(self, key: str) -> str | None:
        return self._read_kind(key, lambda value: value if isinstance(value, str) else None, "a text")

    def number(self, key: str) -> float | None:
        """A finite number; digits in a text count too."""
        return self._read_kind(key, _as_number, "a number")

    def whole(self, key: str) -> int | None:
        return self._read_kind(key, _as_whole, "a whole number")

    def flag(self, key: str) -> bool | None:
        return self._read_kind(key, lambda value: value if isinstance(value, bool) else None, "true or false")

    def texts(self, key: str) -> list[str]:
        """A list of texts; a single text is a list of one."""
        found = self._read_kind(key, _as_texts, "a list of texts")
        return found or []

    def table(self, key: str) -> "SourceTable":
        """The table; an empty one where there is none."""
        value = self._read_kind(key, _as_mapping, "a table")
        return self._below(value or {}, self.path_of(key))

    def tables(self, key: str) -> "list[SourceTable]":
        """A list of tables; a single table is a list of one."""
        value = self._read_kind(key, _as_list, "a list of tables")
        found: list[SourceTable] = []
        for at, each in enumerate(value or []):
            path = f"{self.path_of(key)}[{at}]"
            table = _as_mapping(each)
            if table is None:
                self.report.leave_out(path, "It should be a table.")
            else:
                found.append(self._below(table, path))
        return found

    def named_tables(self, key: str) -> "Iterator[tuple[str, SourceTable]]":
        """The tables in a table, with their names."""
        parent = self.table(key)
        for name in parent.keys:
            if name in parent:
                yield name, parent.table(name)

    def leave_out(self, key: str, advice: str) -> None:
        """Report the key as known and not brought, unless it is unset or turned off."""
        value = self.read(key)
        if not _is_unset(value):
            self.report.leave_out(self.path_of(key), advice)

    def leave_all_out(self, advice: Mapping[str, str]) -> None:
        for key, text in advice.items():
            self.leave_out(key, text)

    def mark_read(self) -> None:
        """Marks every key as read, here and in the tables that were read: they are reported as a whole."""
        self._unread.clear()
        for table in self._tables:
            table.mark_read()

    def report_unread(self) -> None:
        """Report every key that nothing has read, here and in the tables that were read."""
        for key in self._unread:
            self.report.leave_out(self.path_of(key), "This importer does not know it.")
        for table in self._tables:
            table.report_unread()

    def _below(self, values: Mapping[str, Any], path: str) -> "SourceTable":
        table = SourceTable(values, path, self.report)
        self._tables.append(table)
        return table

    def _read_kind(self, key: str, convert: Callable[[Any], T | None], kind: str) -> T | None:
        value = self.read(key)
        if key not in self:
            return None
        converted = convert(value)
        if converted is None:
            self.report.leave_out(self.path_of(key), f"It should be {kind}.")
        return converted


def _is_unset(value: Any) -> bool:
    """Whether a value turns its key off, as if it were absent. 0 does not: it is a value like others."""
    return value is None or value is False or (isinstance(value, str | list | dict) and not value)


def _as_number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str) or (isinstance(value, str) and len(value) > 100):
        return None
    if isinstance(value, int) and abs(value) > _MAX_WHOLE:
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _as_whole(value: Any) -> int | None:
    number = _as_number(value)
    return int(number) if number is not None and number.is_integer() and abs(number) <= _MAX_WHOLE else None


def _as_mapping(value: Any) -> Mapping[str, Any] | None:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else None


def _as_list(value: Any) -> list[Any] | None:
    """A single table is a list of one."""
    return cast("list[Any]", value) if isinstance(value, list) else [value] if isinstance(value, dict) else None


def _as_texts(value: Any) -> list[str] | None:
    values = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, str)] if all(isinstance(each, str) for each in values) else None
