"""Opening a caller's body: one typed decode that checks it, and where it does not hold, the sentence and the path that say so."""

import re
from typing import TypeVar

import msgspec

from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import Body, find_lone_surrogate

T = TypeVar("T")

_FAULT_PATH = re.compile(r"^(?P<what>.*) - at `(?P<path>[^`]*)`$", re.DOTALL)


def parse_body(raw: bytes, decoder: msgspec.json.Decoder[T]) -> tuple[T, Body]:
    """The documented fields, and the caller's own bytes by key. Raises Malformed: what was wrong, where, and what was expected."""
    try:
        return decoder.decode(raw), Body.read(raw)
    except msgspec.ValidationError as error:
        raise _validation_error(str(error)) from None
    except msgspec.DecodeError as error:
        raise _not_json(raw, str(error)) from None
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"The body is not UTF-8: byte {error.start} of a string is {error.object[error.start]:#04x}.") from None
    except RecursionError:
        raise InvalidRequest("The body is nested too deeply to be read.") from None


def parse_episode_id(plain: str | None, prefixed: str | None) -> str | None:
    """The episode that `episode_id` and `tensorzero::episode_id` name. Raises Malformed for none or two."""
    if "" in (plain, prefixed):
        raise InvalidRequest("`episode_id` is empty: leave it out for a new episode.", param="episode_id")
    if plain and prefixed and plain.lower() != prefixed.lower():
        raise InvalidRequest("`episode_id` and `tensorzero::episode_id` name two episodes.", param="episode_id")
    return plain or prefixed


def _validation_error(message: str) -> InvalidRequest:
    """msgspec says ``Expected `str`, got `int` - at `$.messages[0].content` ``; the root it calls `$`."""
    found = _FAULT_PATH.match(message)
    problem, path = (found["what"], found["path"].removeprefix("$").removeprefix(".")) if found else (message, "")
    if not path:
        missing = re.search(r"missing required field `([^`]*)`", problem)
        return InvalidRequest(
            f"{problem}." if missing else f"The body must be a JSON object. {problem}.", param=missing[1] if missing else None
        )
    return InvalidRequest(f"{problem} at `{path}`.", param=path)


def _not_json(raw: bytes, message: str) -> InvalidRequest:
    offset = find_lone_surrogate(raw)
    if offset is not None:
        return InvalidRequest(
            f"The body holds half a surrogate pair (byte {offset}): a character was cut in two. Send both halves or none."
        )
    if "truncated" in message:
        return InvalidRequest(f"The body is not JSON: it ends too early (byte {len(raw)}).")
    return InvalidRequest(f"The body is not JSON: {message.removeprefix('JSON is malformed: ')}.")
