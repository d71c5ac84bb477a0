"""A JSON schema without references to its own definitions, for models that write arguments behind a $ref as strings."""

from typing import Any, cast

_DEFINITIONS = ("$defs", "definitions")
# A schema grows by inlining: at most so many values of it are written.
_MAX_VALUES = 20_000


class _TooLarge(ValueError):
    pass


def inline_references(schema: Any) -> Any:
    """The schema with each definition in place of its references; the same object if that is not possible (a recursive one)."""
    if not isinstance(schema, dict):
        return schema
    root = cast("dict[str, Any]", schema)
    definitions = {
        f"#/{group}/{name}": definition
        for group in _DEFINITIONS
        if isinstance(root.get(group), dict)
        for name, definition in root[group].items()
    }
    try:
        inlined = _Inliner(definitions).inline({key: value for key, value in root.items() if key not in _DEFINITIONS}, ())
    except (_TooLarge, RecursionError):
        return root
    return inlined


class _Inliner:
    def __init__(self, definitions: dict[str, Any]) -> None:
        self._definitions = definitions
        self._values = 0

    def inline(self, schema: Any, inside: tuple[str, ...]) -> Any:
        """The schema with each reference replaced by what it refers to. The references in `inside` led here."""
        self._values += 1
        if self._values > _MAX_VALUES:
            raise _TooLarge
        if isinstance(schema, list):
            return [self.inline(each, inside) for each in cast("list[Any]", schema)]
        if not isinstance(schema, dict):
            return schema
        fields = cast("dict[str, Any]", schema)
        reference = fields.get("$ref")
        if not isinstance(reference, str):
            return {key: self.inline(value, inside) for key, value in fields.items()}
        if reference in inside or reference not in self._definitions:
            raise _TooLarge
        target: Any = self.inline(self._definitions[reference], (*inside, reference))
        beside = {key: self.inline(value, inside) for key, value in fields.items() if key != "$ref"}
        return {**cast("dict[str, Any]", target), **beside} if isinstance(target, dict) else target
