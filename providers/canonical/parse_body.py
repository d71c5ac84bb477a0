"""Parses a caller's body: one typed decode checks it, and an invalid body becomes an error with a sentence and a path."""

import re
from typing import TypeVar

import msgspec

from providers.canonical.convert_scalars import convert_scalars
from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import Body, find_lone_surrogate
from providers.canonical.slow_numbers import SLOW_NUMBERS_ADVICE, UNCOUNTED_BYTES, has_slow_numbers

T = TypeVar("T")

_ERROR_PATH = re.compile(r"^(?P<problem>.*) - at `(?P<path>[^`]*)`$", re.DOTALL)


def parse_body(raw: bytes, decoder: msgspec.json.Decoder[T]) -> tuple[T, Body]:
    """The decoded fields, and the body with the caller's own bytes. Raises InvalidRequest: what is wrong, where, and what was expected."""
    if len(raw) > UNCOUNTED_BYTES and has_slow_numbers(raw):
        raise too_many_slow_numbers()
    try:
        return decoder.decode(raw), Body.read(raw)
    except msgspec.ValidationError as error:
        converted = convert_scalars(raw, decoder.type)
        if converted is not None:
            return parse_body(converted, decoder)[0], Body.read(converted)
        raise _validation_error(str(error)) from None
    except msgspec.DecodeError as error:
        raise _not_json(raw, str(error)) from None
    except (UnicodeDecodeError, RecursionError) as error:
        raise undecodable(error) from None


def undecodable(error: msgspec.DecodeError | UnicodeDecodeError | RecursionError, param: str | None = None) -> InvalidRequest:
    """Returns the error for a part of a body that was looked through and cannot be decoded, such as the number 1e400."""
    if isinstance(error, RecursionError):
        return InvalidRequest("The body is nested too deeply.", param=param)
    if isinstance(error, UnicodeDecodeError):
        where = f"byte {error.start} of a string is {error.object[error.start]:#04x}"
        return InvalidRequest(f"The body is not UTF-8: {where}.", param=param)
    match = _ERROR_PATH.match(str(error))
    return InvalidRequest(f"The body holds a value that cannot be read: {match['problem'] if match else error}.", param=param)


def too_many_slow_numbers() -> InvalidRequest:
    return InvalidRequest(f"The body has too many numbers that take long to read: {SLOW_NUMBERS_ADVICE}")


def parse_episode_id(plain: str | None, prefixed: str | None) -> str | None:
    """The episode that `episode_id` or `tensorzero::episode_id` names; None: neither. Raises InvalidRequest for an empty one, or two."""
    if "" in (plain, prefixed):
        raise InvalidRequest("`episode_id` is empty: leave it out for a new episode.", param="episode_id")
    if plain and prefixed and plain != prefixed:
        raise InvalidRequest("`episode_id` and `tensorzero::episode_id` name different episodes.", param="episode_id")
    return plain or prefixed


def _validation_error(message: str) -> InvalidRequest:
    """Splits msgspec's ``Expected `str`, got `int` - at `$.messages[0].content` `` into sentence and path; `$` is the root."""
    match = _ERROR_PATH.match(message)
    problem, path = (match["problem"], match["path"].removeprefix("$").removeprefix(".")) if match else (message, "")
    if not path:
        field = re.search(r"(?:missing required|unknown) field `([^`]*)`", problem)
        return InvalidRequest(f"{problem}." if field else f"The body must be a JSON object. {problem}.", param=field[1] if field else None)
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
