"""Opening a caller's body: one typed decode that checks it, and where it does not hold, the sentence and the path that say so."""

import re
from typing import TypeVar

import msgspec

from providers.errors import Malformed
from providers.wire import Body, half_pair

T = TypeVar("T")

_PLACE = re.compile(r"^(?P<what>.*) - at `(?P<path>[^`]*)`$", re.DOTALL)


def opened(raw: bytes, decoder: msgspec.json.Decoder[T]) -> tuple[T, Body]:
    """The documented fields, and the caller's own bytes by key. Raises Malformed: what was wrong, where, and what was expected."""
    try:
        return decoder.decode(raw), Body.read(raw)
    except msgspec.ValidationError as fault:
        raise _misfit(str(fault)) from None
    except msgspec.DecodeError as fault:
        raise _not_json(raw, str(fault)) from None
    except UnicodeDecodeError as fault:
        raise Malformed(f"The body is not UTF-8: byte {fault.start} of a string is {fault.object[fault.start]:#04x}.") from None
    except RecursionError:
        raise Malformed("The body is nested too deeply to be read.") from None


def one_episode(plain: str | None, prefixed: str | None) -> str | None:
    """The episode that `episode_id` and `tensorzero::episode_id` name. Raises Malformed for none or two."""
    if "" in (plain, prefixed):
        raise Malformed("`episode_id` is empty: leave it out for a new episode.", param="episode_id")
    if plain and prefixed and plain.lower() != prefixed.lower():
        raise Malformed("`episode_id` and `tensorzero::episode_id` name two episodes.", param="episode_id")
    return plain or prefixed


def _misfit(fault: str) -> Malformed:
    """msgspec says ``Expected `str`, got `int` - at `$.messages[0].content` ``; the root it calls `$`."""
    found = _PLACE.match(fault)
    what, path = (found["what"], found["path"].removeprefix("$").removeprefix(".")) if found else (fault, "")
    if not path:
        missing = re.search(r"missing required field `([^`]*)`", what)
        return Malformed(f"{what}." if missing else f"The body must be a JSON object. {what}.", param=missing[1] if missing else None)
    return Malformed(f"{what} at `{path}`.", param=path)


def _not_json(raw: bytes, fault: str) -> Malformed:
    place = half_pair(raw)
    if place is not None:
        return Malformed(f"The body holds half a surrogate pair (byte {place}): a character was cut in two. Send both halves or none.")
    if "truncated" in fault:
        return Malformed(f"The body is not JSON: it ends too early (byte {len(raw)}).")
    return Malformed(f"The body is not JSON: {fault.removeprefix('JSON is malformed: ')}.")
