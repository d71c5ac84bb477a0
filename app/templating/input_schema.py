"""The schema of what a template is rendered with. It is an operator's: checked when it is saved, compiled once.

Whether an input keeps to it is known in time that grows with the input (jsonschema_rs 0.60 remembers what it has checked). To say where it
does not takes an error for each branch of each `anyOf`, with a copy of the value: that is asked only of a small part of the input.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn, cast

import jsonschema_rs
import msgspec

from app.templating.errors import RenderFault, TemplateFault

# Of regular expressions: one that takes time without end is no fault of the caller.
_PATTERNS = jsonschema_rs.RegexOptions()
# Stands for the value in an error's message, which would otherwise hold all of it, however large.
_VALUE = "\0"
_MAX_MESSAGE_CHARACTERS = 300
_MAX_VALUE_CHARACTERS = 100
_MAX_PATH_STEPS = 50
# Of an input, or a part of one, in which an error is looked for: values, characters, and branches to the power of levels.
_MAX_VALUES, _MAX_CHARACTERS, _MAX_BRANCHES = 1_000, 10_000, 10_000
_VIOLATION = "it violates the schema of the template"


class InputSchema:
    """The JSON Schema of a template's input. Raises TemplateFault if it is no schema of an object."""

    __slots__ = ("_branches", "_validator", "properties", "schema")

    def __init__(self, schema: Mapping[str, Any]) -> None:
        declared = schema.get("properties", {})
        if schema.get("type", "object") != "object" or not isinstance(declared, Mapping):
            raise TemplateFault("it must be of an object, whose properties are the template's variables")
        # the variables that it declares
        self.properties = frozenset[str](declared)  # pyright: ignore[reportUnknownArgumentType]
        self.schema = schema
        self._validator = compile_schema(schema)
        self._branches = max(_branches(schema), default=1)

    def check(self, inputs: Mapping[str, Any]) -> None:
        """Raises RenderFault for the first part of the inputs that violates it."""
        try:
            if self._validator.is_valid(inputs):
                return
            if self._is_small(inputs):
                self._validator.validate(inputs)
            self._refuse_variable(inputs)
        except jsonschema_rs.ValidationError as fault:
            raise RenderFault(_message(fault, inputs), _path(fault.instance_path)) from None
        except (ValueError, RecursionError) as fault:  # of what is nested too deeply
            raise RenderFault(f"the input cannot be checked: {fault!s:.200}") from None

    def _is_small(self, inputs: Any) -> bool:
        values, characters, levels = _measure(inputs)
        return values <= _MAX_VALUES and characters <= _MAX_CHARACTERS and self._branches ** min(levels, 100) <= _MAX_BRANCHES

    def _refuse_variable(self, inputs: Mapping[str, Any]) -> NoReturn:
        """Names the variable that is wrong by itself, and of a list the first item."""
        missing = sorted(name for name in self.schema.get("required", ()) if name not in inputs)
        if missing:
            raise RenderFault(f'"{missing[0]:.100}" is a required property')
        alone = compile_schema({**self.schema, "required": []})
        wrong = next((name for name in sorted(self.properties & inputs.keys()) if not alone.is_valid({name: inputs[name]})), None)
        if wrong is None:
            raise RenderFault(_VIOLATION)
        items = inputs[wrong]
        index = _first_wrong_item(alone, wrong, cast("list[Any]", items)) if isinstance(items, list) else None
        if index is None:
            raise RenderFault(_VIOLATION, _path([wrong]))
        item: Mapping[str, Any] = {wrong: [items[index]]}
        if self._is_small(item):
            try:
                alone.validate(item)
            except jsonschema_rs.ValidationError as fault:
                if len(fault.instance_path) > 1:  # it is not about the list of one item that was made here
                    raise RenderFault(_message(fault, item), _path([wrong, index, *fault.instance_path[2:]])) from None
        raise RenderFault(_VIOLATION, _path([wrong, index]))


def _first_wrong_item(alone: jsonschema_rs.Validator, name: str, items: Sequence[Any]) -> int | None:
    """Returns the index of the first item that is wrong by itself, or None if there is none."""
    valid, invalid = 0, len(items)
    while invalid - valid > 1:
        half = (valid + invalid) // 2
        valid, invalid = (half, invalid) if alone.is_valid({name: items[:half]}) else (valid, half)
    return valid if items and not alone.is_valid({name: [items[valid]]}) else None


def _branches(schema: Any) -> Iterator[int]:
    waiting = [schema]
    while waiting:
        match waiting.pop():
            case Mapping() as fields:  # pyright: ignore[reportUnknownVariableType]
                for key, value in cast("Mapping[str, Any]", fields).items():
                    if key in ("anyOf", "oneOf") and isinstance(value, list):
                        yield len(cast("list[Any]", value))
                    waiting.append(value)
            case list() as items:  # pyright: ignore[reportUnknownVariableType]
                waiting += cast("list[Any]", items)
            case _:
                pass


def _measure(inputs: Any) -> tuple[int, int, int]:
    """Values, characters and levels; counted only until there are too many."""
    values = characters = levels = 0
    waiting: list[tuple[Any, int]] = [(inputs, 1)]
    while waiting and values <= _MAX_VALUES and characters <= _MAX_CHARACTERS:
        value, level = waiting.pop()
        values, levels = values + 1, max(levels, level)
        match value:
            case Mapping():
                fields = cast("Mapping[str, Any]", value)
                values += len(fields)
                if values <= _MAX_VALUES:
                    characters += sum(map(len, fields))
                    waiting += [(each, level + 1) for each in fields.values()]
            case list():
                items = cast("list[Any]", value)
                values += len(items)
                if values <= _MAX_VALUES:
                    waiting += [(each, level + 1) for each in items]
            case str():
                characters += len(value)
            case _:
                pass
    return values, characters, levels


def compile_schema(schema: Mapping[str, Any]) -> jsonschema_rs.Validator:
    """Raises TemplateFault if it is no JSON Schema."""
    try:
        return jsonschema_rs.validator_for(dict(schema), pattern_options=_PATTERNS, retriever=_refuse_fetch, mask=_VALUE)
    except (ValueError, jsonschema_rs.ReferencingError) as fault:
        raise TemplateFault(f"it is not a valid JSON Schema: {str(fault).partition(chr(10))[0]:.300}") from None


def _path(steps: Sequence[str | int]) -> str:
    path = "".join([f"[{step}]" if isinstance(step, int) else f".{step:.100}" for step in steps[:_MAX_PATH_STEPS]])
    return path if len(steps) <= _MAX_PATH_STEPS else f"{path}..."


def _message(fault: jsonschema_rs.ValidationError, inputs: Any) -> str:
    message = fault.message
    if not message.startswith(_VALUE):
        return message[:_MAX_MESSAGE_CHARACTERS]
    for step in fault.instance_path:
        inputs = inputs[step]
    return f"{_shown(inputs)}{message[len(_VALUE) :]}"[:_MAX_MESSAGE_CHARACTERS]


def _shown(value: Any) -> str:
    match value:
        case Mapping():
            return f"an object with {len(cast('Mapping[str, Any]', value))} fields"
        case list():
            return f"a list of {len(cast('list[Any]', value))} items"
        case str() if len(value) > _MAX_VALUE_CHARACTERS:
            return f"a text of {len(value)} characters"
        case _:
            return msgspec.json.encode(value).decode()[:_MAX_VALUE_CHARACTERS]


def _refuse_fetch(address: str) -> NoReturn:
    raise ValueError(f"{address!r:.200} is outside of the schema, and nothing is fetched")
