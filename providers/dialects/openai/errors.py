"""OpenAI's error envelope, which all dialects of its family use."""

from typing import Any

import msgspec

from providers.canonical.errors import NarthexError


def write_error_envelope(error: NarthexError) -> bytes:
    """The error envelope as JSON. `code` is the HTTP status as a number, unless the error has a more specific code.

    The hosted gateway's envelope has the same form.
    """
    fields: dict[str, Any] = {"message": error.message, "type": error.kind, "code": error.code or error.status, "param": error.param}
    if error.details:
        fields["details"] = error.details
    return msgspec.json.encode({"error": fields})
