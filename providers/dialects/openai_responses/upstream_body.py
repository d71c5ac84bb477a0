"""Prepares a request body for an engine."""

import msgspec
from msgspec import Raw

from providers.canonical.raw_json import Body
from providers.dialects.openai_responses.include_values import ENCRYPTED_REASONING

_include_decoder = msgspec.json.Decoder(list[str])


def prepare_upstream_body(body: Body, stream: bool) -> None:
    """Makes a request stateless and sets `stream`, always: without it transformers serve streams. Usage is reported anyway."""
    make_stateless(body)
    body.pop("previous_response_id", None)
    body["stream"] = stream
    if not stream:
        body.pop("stream_options", None)


def make_stateless(body: Body) -> None:
    """Makes the engine store nothing, as the gateway keeps the conversation, and return its reasoning encrypted, to be sent back later."""
    body["store"] = False
    include = (
        _include_decoder.decode(body["include"])
        if isinstance(body.get("include"), Raw) and body.has_value("include")
        else body.get("include") or []
    )
    if ENCRYPTED_REASONING not in include:
        body["include"] = [*include, ENCRYPTED_REASONING]
