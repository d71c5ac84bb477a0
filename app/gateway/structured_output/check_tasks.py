"""Check tasks: what the checking process is given to check of an output format."""

from typing import assert_never

import msgspec

from app.gateway.structured_output.checker.protocol import CheckTask
from providers.canonical.errors import InvalidRequest
from providers.canonical.output_format import (
    Choice,
    Grammar,
    JsonObject,
    JsonSchema,
    OutputFormat,
    Regex,
    StructuralTag,
    output_kind,
)

MAX_CONSTRAINT_CHARS = 500_000
"""Characters of a constraint; bytes of the field that holds it."""


def check_task(output: OutputFormat, field: str) -> CheckTask | None:
    """Returns what the checker is to check of an output format, or None if there is nothing to check.

    `field` is the caller's name for it, for errors. Raises InvalidRequest for what is plainly wrong.
    """
    match output:
        case JsonObject():
            return None
        case Choice():
            if not output.options or not all(output.options):
                raise InvalidRequest(f"`{field}` must hold at least one choice, and no empty one.", param=field)
            if any("\0" in option for option in output.options):
                raise InvalidRequest(f"`{field}` holds a NUL, which no model writes.", param=field)
            size = sum(map(len, output.options))
            if size > MAX_CONSTRAINT_CHARS:
                raise InvalidRequest(f"`{field}` has {size} characters; {MAX_CONSTRAINT_CHARS} can be checked.", param=field)
            return None
        case Regex() | Grammar() | StructuralTag() | JsonSchema():
            source = source_text(output)
            if not source:
                raise InvalidRequest(f"`{field}` is empty.", param=field)
            if "\0" in source:
                raise InvalidRequest(f"`{field}` holds a NUL, which no model writes.", param=field)
            return CheckTask(output_kind(output), source)
        case _:
            assert_never(output)


def source_text(output: OutputFormat) -> str:
    """The constraint as CheckTask.source holds it."""
    match output:
        case JsonObject():
            return ""
        case JsonSchema():
            return bytes(output.schema).decode()
        case Regex():
            return output.pattern
        case Choice():
            return msgspec.json.encode(output.options).decode()
        case Grammar() | StructuralTag():
            return output.text
        case _:
            assert_never(output)
