"""Whether two responses to one request are the same: their text and the tools they call, whatever ids and numbers they have. Pure."""

from app.gateway.response_translation.written import read_written, say_the_same


def are_same(route: str, one: bytes, other: bytes, *, streamed: bool) -> bool | None:
    """Returns whether two responses say the same, or None if one cannot be read or neither says anything."""
    first, second = (read_written(route, each, streamed=streamed) for each in (one, other))
    if first is None or second is None or not any(choice.text or choice.calls for choice in (*first, *second)):
        return None
    return say_the_same(first, second)
