"""The body of a request to a cloud as one of Anthropic's Messages: its model stands in the address, the betas may stand in the body.

Sources: https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages.html, and the requests of Claude
Code 2.1.332 and anthropic-python 2.14 (lib/bedrock, lib/vertex), read 2026-11.
"""

import re
from collections.abc import Callable

import msgspec
from msgspec import Raw

from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import Body
from providers.profiles.bedrock.families import bare_model_id

# Such as -20260922-v1:0.
_VERSION = re.compile(r"(-\d{8})?(-v\d+(:\d+)?)?$")
_betas_decoder = msgspec.json.Decoder(list[str])


def find_model(name: str, is_known: Callable[[str], bool]) -> str:
    """Returns the gateway's name for a model of a cloud: the same, or without the region, the maker, the date and the version it adds."""
    bare = bare_model_id(name).partition("@")[0]
    unmade = bare.removeprefix("anthropic.")
    for candidate in (name, bare, unmade, _VERSION.sub("", unmade)):
        if is_known(candidate):
            return candidate
    return name


def write_messages_body(raw: bytes, model: str | None, *, stream: bool | None) -> tuple[bytes, list[str]]:
    """Returns the body in Messages, and the betas that it held. None: what the body says stays.

    Raises InvalidRequest or DECODE_ERRORS for what is no object.
    """
    body = Body.read(raw)
    body.pop("anthropic_version", None)
    betas = body.pop("anthropic_beta", None)
    if model is not None:
        body["model"] = Raw(msgspec.json.encode(model))
    if stream is not None:
        body["stream"] = Raw(b"true" if stream else b"false")
    try:
        return body.write(), [] if betas is None else _betas_decoder.decode(betas)
    except msgspec.ValidationError:
        raise InvalidRequest("`anthropic_beta` is a list of names.", param="anthropic_beta") from None
