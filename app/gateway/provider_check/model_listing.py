"""GET /v1/models of an engine or host: reading the list, and whose list shows that a credential is valid."""

import httpx2
import msgspec
from msgspec import Struct

from providers.canonical.raw_json import DECODE_ERRORS
from providers.catalogue import ENGINE_PROBES

# Their documentation says that the list needs a credential. Others show it to everybody, or have none at that address.
AUTHENTICATED_LISTINGS = frozenset({"openai", "anthropic", "mistral", "xai", "deepseek", "groq", "cerebras", *ENGINE_PROBES})

_MAX_BODY_BYTES = 4 * 1024 * 1024


class _ModelEntry(Struct):
    id: str


class _ModelList(Struct):
    data: list[_ModelEntry]


def read_model_ids(body: bytes) -> frozenset[str] | None:
    """The ids of the models; None: this is not a list of models."""
    try:
        return frozenset(entry.id for entry in msgspec.json.decode(body, type=_ModelList).data)
    except DECODE_ERRORS:
        return None


async def read_body(response: httpx2.Response) -> bytes:
    """Reads the body until its end or until it exceeds 4 MiB, and closes the response. Raises httpx2.TransportError."""
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    body = b""
    try:
        async for block in response.stream:
            body += block
            if len(body) > _MAX_BODY_BYTES:
                break
    finally:
        await response.aclose()
    return body
