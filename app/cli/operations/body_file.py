"""Bodies in files, as JSON or TOML."""

import tomllib
from collections.abc import Mapping
from typing import Any, TextIO

import click
import msgspec

from providers.canonical.raw_json import DECODE_ERRORS


def read_body(file: TextIO) -> Mapping[str, Any]:
    """The fields of a body in a file, as JSON or TOML. Raises UsageError."""
    text = file.read()
    try:
        body = msgspec.json.decode(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except (*DECODE_ERRORS, tomllib.TOMLDecodeError) as fault:
        raise click.UsageError(f"{file.name} is neither a JSON object nor TOML: {fault}.") from None
    return body
