"""The schema of what a template is rendered with. It is an operator's: checked when it is saved, compiled once."""

from collections.abc import Mapping
from typing import Any, NoReturn

import jsonschema_rs

from app.templating.errors import RenderFault, TemplateFault

# Of regular expressions: one that takes time without end is no fault of the caller.
_PATTERNS = jsonschema_rs.RegexOptions()
_MAX_MESSAGE_CHARACTERS = 300


class InputSchema:
    """`properties`: the variables that it declares. Raises TemplateFault if it is no schema of an object."""

    __slots__ = ("_validator", "properties", "schema")

    def __init__(self, schema: Mapping[str, Any]) -> None:
        declared = schema.get("properties", {})
        if schema.get("type", "object") != "object" or not isinstance(declared, Mapping):
            raise TemplateFault("it must be of an object, whose properties are the template's variables")
        self.properties = frozenset[str](declared)  # pyright: ignore[reportUnknownArgumentType]
        self.schema = schema
        self._validator = compile_schema(schema)

    def check(self, inputs: Mapping[str, Any]) -> None:
        """Raises RenderFault for the first part of the inputs that violates it."""
        if self._validator.is_valid(inputs):
            return
        fault = next(iter(self._validator.iter_errors(inputs)))
        path = "".join([f"[{step}]" if isinstance(step, int) else f".{step:.100}" for step in fault.instance_path])
        raise RenderFault(fault.message[:_MAX_MESSAGE_CHARACTERS], path)


def compile_schema(schema: Mapping[str, Any]) -> jsonschema_rs.Validator:
    """Raises TemplateFault if it is no JSON Schema."""
    try:
        return jsonschema_rs.validator_for(dict(schema), pattern_options=_PATTERNS, retriever=_refuse_fetch)
    except (ValueError, jsonschema_rs.ReferencingError) as fault:
        raise TemplateFault(f"it is not a valid JSON Schema: {str(fault).partition(chr(10))[0]:.300}") from None


def _refuse_fetch(address: str) -> NoReturn:
    raise ValueError(f"{address!r:.200} is outside of the schema, and nothing is fetched")
