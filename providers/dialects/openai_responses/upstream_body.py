"""Prepares a request body for an engine."""

import msgspec
from msgspec import Raw

from providers.canonical.raw_json import NULL, Body
from providers.dialects.openai_responses.include_values import ENCRYPTED_REASONING
from providers.dialects.openai_responses.long_ids import shorten_ids

_include_decoder = msgspec.json.Decoder(list[str])


def prepare_upstream_body(body: Body, stream: bool) -> None:
    """Makes a request stateless and sets `stream`, always: without it transformers serve streams. Usage is reported anyway."""
    make_stateless(body)
    shorten_ids(body)
    body.pop("previous_response_id", None)
    body["stream"] = stream
    if not stream:
        body.pop("stream_options", None)


def make_stateless(body: Body) -> None:
    """Makes the engine store nothing, as the gateway keeps the conversation, and return its reasoning encrypted, to be sent back later."""
    body["store"] = False
    include = _read_include(body)
    if ENCRYPTED_REASONING not in include:
        body["include"] = [*include, ENCRYPTED_REASONING]


def remove_encrypted_reasoning(body: Body) -> bool:
    """Requests no encrypted reasoning. False: the body did not request it."""
    include = _read_include(body)
    if ENCRYPTED_REASONING not in include:
        return False
    include = [value for value in include if value != ENCRYPTED_REASONING]
    if include:
        body["include"] = include
    else:
        del body["include"]
    return True


def _read_include(body: Body) -> list[str]:
    include = body.get("include")
    if isinstance(include, Raw):
        return [] if include == NULL else _include_decoder.decode(include)
    return include or []
