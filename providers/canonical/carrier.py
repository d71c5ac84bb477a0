"""Carriers: what one dialect mints and wants back (a thinking signature, encrypted reasoning, a block of a tool that its host ran) goes
through a caller of another dialect as a string, in whatever field that dialect lets clients send back unread.

`nx1.` and the origin's name and base64url, so that it may stand in an id, and no minter takes it for its own.
"""

import base64
import binascii
import re

from providers.canonical.chat import OpaqueState

PREFIX = "nx1."
# None: a body carries nothing. A search by pattern takes a third of the time that `in` does.
find_carrier = re.compile(re.escape(PREFIX).encode()).search


def encode_carrier(state: OpaqueState, *, caller_dialect: str) -> str:
    """The seal as a caller of the dialect `through` is given it: its own as it is."""
    if state.origin == caller_dialect:
        return state.data
    return f"{PREFIX}{state.origin}.{base64.urlsafe_b64encode(state.data.encode()).decode().rstrip('=')}"


def decode_carrier(text: str, *, caller_dialect: str) -> OpaqueState:
    """What a caller of the dialect `through` gives back: the seal of whoever minted it. What cannot be read stays the dialect's own."""
    if text.startswith(PREFIX):
        origin, _, data = text.removeprefix(PREFIX).partition(".")
        try:
            return OpaqueState(origin, base64.urlsafe_b64decode(data + "=" * (-len(data) % 4)).decode())
        except (binascii.Error, ValueError):
            pass
    return OpaqueState(caller_dialect, text)
