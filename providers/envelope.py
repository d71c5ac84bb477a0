"""OpenAI's error envelope, which all dialects of its family answer with."""

from typing import Any

import msgspec

from providers.errors import NarthexError


def openai_error(error: NarthexError) -> bytes:
    """The hosted gateway's envelope: `code` is the HTTP status as a number, unless there is a word that says more."""
    told: dict[str, Any] = {"message": error.message, "type": error.kind, "code": error.code or error.status, "param": error.param}
    if error.details:
        told["details"] = error.details
    return msgspec.json.encode({"error": told})
