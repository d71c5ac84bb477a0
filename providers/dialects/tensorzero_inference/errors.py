"""Errors as TensorZero writes them: a message; and beside it, in the field of its verbose errors, what programs read of ours.

Source: crates/tensorzero-core/src/error/mod.rs of tensorzero/tensorzero at 7a6159a, read 2026-11.
"""

from typing import Any

import msgspec

from providers.canonical.errors import NarthexError
from providers.canonical.sse import sse_frame


def write_error(error: NarthexError) -> bytes:
    fields: dict[str, Any] = {"message": error.message, "type": error.kind, "code": error.code or error.status, "param": error.param}
    if error.details:
        fields["details"] = error.details
    return msgspec.json.encode({"error": error.message, "error_json": fields})


def write_error_frame(error: NarthexError) -> bytes:
    return sse_frame(write_error(error))
