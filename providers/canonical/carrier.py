"""Carriers: strings that take one dialect's opaque state through a caller of another dialect and back.

Opaque state is a thinking signature, encrypted reasoning, or a block of a tool that the host ran. The carrier goes into a field that
clients of the caller's dialect send back unread. It is `nx1.`, the origin's name and base64url: valid in an id, and not mistaken by any
host for its own state.
"""

import base64
import binascii

from providers.canonical.chat import OpaqueState
from providers.wire import holds

PREFIX = "nx1."
_PREFIX, _RAREST = PREFIX.encode(), PREFIX.index("x")


def holds_carrier(body: bytes) -> bool:
    """Whether there may be a carrier somewhere in a body."""
    return holds(body, _PREFIX, _RAREST)


def encode_carrier(state: OpaqueState, *, caller_dialect: str) -> str:
    """The string that a caller of `caller_dialect` gets for this state: state of its own dialect is unchanged."""
    if state.origin == caller_dialect:
        return state.data
    return f"{PREFIX}{state.origin}.{base64.urlsafe_b64encode(state.data.encode()).decode().rstrip('=')}"


def decode_carrier(text: str, *, caller_dialect: str) -> OpaqueState:
    """The state in a string that a caller of `caller_dialect` sent back. A string that is no valid carrier is state of that dialect."""
    if text.startswith(PREFIX):
        origin, _, data = text.removeprefix(PREFIX).partition(".")
        try:
            return OpaqueState(origin, base64.urlsafe_b64decode(data + "=" * (-len(data) % 4)).decode())
        except (binascii.Error, ValueError):
            pass
    return OpaqueState(caller_dialect, text)
