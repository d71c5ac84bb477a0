"""Schemathesis imports this: how it sends a body of a media type that it does not know."""

# pyright: basic, reportMissingImports=false
from typing import Any

import schemathesis


@schemathesis.serializer("application/toml", "application/jsonl")
def send_text(context: Any, value: Any) -> bytes:
    return str(value).encode()
