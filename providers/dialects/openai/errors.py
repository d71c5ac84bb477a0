"""OpenAI's error envelope, which all dialects of its family answer with."""

from typing import Any

import msgspec

from providers.canonical.errors import NarthexError


def write_error_envelope(error: NarthexError) -> bytes:
    """The hosted gateway's envelope: `code` is the HTTP status as a number, unless there is a word that says more."""
    fields: dict[str, Any] = {"message": error.message, "type": error.kind, "code": error.code or error.status, "param": error.param}
    if error.details:
        fields["details"] = error.details
    return msgspec.json.encode({"error": fields})
