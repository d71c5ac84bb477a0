"""Bounds on output tokens: of all that a request holds, under whatever name, the smallest holds.

It is what limits reserve, and what the target gets, in the dialect's own field. The others are removed before anything reads the body:
an engine that prefers a field of its own would write more than was reserved, and one that does not know a field would not stop there.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from providers.canonical.errors import InvalidRequest
from providers.canonical.extra_fields import as_raw
from providers.canonical.parse_body import undecodable
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.fields import OUTPUT_BOUND_FIELDS, OUTPUT_BOUND_OBJECTS

_ALL_NAMES = OUTPUT_BOUND_FIELDS | OUTPUT_BOUND_OBJECTS
# For each name that a dialect has for its bound, what may be beside it.
_OTHER_NAMES: Mapping[str, frozenset[str]] = {name: _ALL_NAMES - {name} for name in OUTPUT_BOUND_FIELDS}
# By transformers, which reads it as Python reads JSON.
_WRITTEN_AS_STRING = "generation_config"


def merge_output_bounds(body: Body, field: str, bound: int | None, minimum: int = 1) -> int | None:
    """The smallest bound of a body; None: it has none. Afterwards the body holds it in `field`, and no other.

    `bound` is the value of `field`, checked, and `minimum` the lowest number that this dialect takes. Raises InvalidRequest for another
    bound that is no number of tokens. A negative one, by which llama.cpp and Ollama mean that there is none, is removed.
    """
    if _OTHER_NAMES[field].isdisjoint(body):
        return bound
    bounds = [] if bound is None else [bound]
    for path, value in [*_take_fields(body, field), *_take_nested_fields(body)]:
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or 0 <= value < minimum:
            raise InvalidRequest(f"`{path}` must be a number of tokens: an integer of {minimum} or more.", param=path)
        if value >= 0:
            bounds.append(value)
    smallest = min(bounds, default=None)
    if smallest is not None and smallest != bound:
        body[field] = smallest
    return smallest


def _take_fields(body: Body, field: str) -> Iterator[tuple[str, Any]]:
    for name in [name for name in body if name in OUTPUT_BOUND_FIELDS and name != field]:
        yield name, body.value(name)
        del body[name]


def _take_nested_fields(body: Body) -> Iterator[tuple[str, Any]]:
    """Those in objects. transformers has its generation_config as a string that holds an object, and it stays one."""
    for outer in sorted(OUTPUT_BOUND_OBJECTS & body.keys()):
        raw = bytes(as_raw(body[outer]))
        is_string = raw[:1] == b'"'
        try:
            fields = Body.read(msgspec.json.decode(raw, type=str).encode() if is_string else raw)
        except msgspec.ValidationError:
            continue  # no object
        except DECODE_ERRORS as fault:
            if is_string and outer != _WRITTEN_AS_STRING:
                continue
            raise undecodable(fault, param=outer) from None  # Python reads NaN, for instance
        names = OUTPUT_BOUND_FIELDS & fields.keys()
        for name in sorted(names):
            yield f"{outer}.{name}", fields.value(name)
            del fields[name]
        if names and fields:
            body[outer] = fields.write().decode() if is_string else fields
        elif names:
            del body[outer]
