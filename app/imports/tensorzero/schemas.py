"""JSON Schemas from files: without nulls, which a configuration file cannot hold."""

from typing import Any, cast

from app.imports.source_table import SourceTable

_MAX_DEPTH = 100


def without_nulls(schema: dict[str, Any], table: SourceTable, key: str) -> dict[str, Any]:
    """The same schema in TOML's terms. What a null says otherwise, such as a default, is left out and reported."""
    cleaner = _Cleaner()
    cleaned = cleaner.clean(schema, 0)
    if cleaner.dropped:
        table.report.changed(table.path_of(key), f"A null cannot be written in TOML: without {', '.join(sorted(cleaner.dropped))} of null.")
    return cast("dict[str, Any]", cleaned)


class _Cleaner:
    def __init__(self) -> None:
        self.dropped: set[str] = set()

    def clean(self, value: Any, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            self.dropped.add("what is nested too deeply")
            return {}
        if isinstance(value, list):
            return [self.clean(each, depth + 1) for each in cast("list[Any]", value) if not self._is_dropped("list entries", each)]
        if not isinstance(value, dict):
            return value
        cleaned: dict[str, Any] = {}
        for name, each in cast("dict[str, Any]", value).items():
            if name == "const" and each is None:
                cleaned["type"] = "null"
            elif name == "enum" and isinstance(each, list) and None in each:
                others = [one for one in cast("list[Any]", each) if one is not None]
                cleaned["anyOf"] = [{"enum": self.clean(others, depth + 1)}, {"type": "null"}] if others else [{"type": "null"}]
            elif not self._is_dropped(f"`{name[:40]}`", each):
                cleaned[name] = self.clean(each, depth + 1)
        return cleaned

    def _is_dropped(self, name: str, value: Any) -> bool:
        if value is None:
            self.dropped.add(name)
        return value is None
