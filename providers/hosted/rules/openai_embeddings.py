"""OpenAI's embeddings for hosts with another API: reading the request and writing the response."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from providers.canonical.errors import TooManyInputs
from providers.canonical.raw_json import Body
from providers.dialect import ResponseMeta
from providers.drop_policy import unsupported_error
from providers.fields import NON_CHAT_HINT_FIELDS

# Fields that are handled here, and the gateway's own.
_HANDLED_FIELDS = frozenset(
    {"model", "input", "dimensions", "encoding_format", "stream", "episode_id", "tensorzero::episode_id", "tensorzero::tags"}
)


class EmbeddingRequest(Struct):
    """A request for embeddings, as it has been read."""

    texts: list[str]
    dimensions: int | None
    host_fields: dict[str, Any]  # the host's own fields that the caller sent
    dropped: list[str]  # hints, and fields that the caller allows to drop


def read_embedding_request(
    body: Body, target: str, may_drop: Callable[[str], bool], *, host_fields: Collection[str] = (), max_texts: int | None = None
) -> EmbeddingRequest:
    """Reads a request for embeddings. Raises Unsupported, TooManyInputs.

    `target` is its name in errors. Callers may send `host_fields`, and at most `max_texts` per request.
    """
    fields = sorted(key for key in body.keys() - _HANDLED_FIELDS if body.has_value(key))
    dropped = [key for key in fields if key not in host_fields]
    for key in dropped:
        if key not in NON_CHAT_HINT_FIELDS and not may_drop(key):
            raise unsupported_error(key, target, "its embeddings API does not have this field.")
    try:
        text_or_texts = msgspec.convert(body.value("input"), str | list[str])
    except msgspec.ValidationError:
        field, input_kind = ("input", "token ids") if body.has_value("input") else ("messages", "conversations")
        raise unsupported_error(field, target, f"it accepts texts, not {input_kind}.") from None
    texts = [text_or_texts] if isinstance(text_or_texts, str) else text_or_texts
    if max_texts is not None and len(texts) > max_texts:
        raise TooManyInputs(
            f"{target:.120} takes {max_texts} in a request at most, not {len(texts)}: send several requests.",
            param="input",
            maximum=max_texts,
        )
    return EmbeddingRequest(texts, body.value("dimensions"), {key: body.value(key) for key in fields if key in host_fields}, dropped)


def write_embeddings_response(vectors: Sequence[Any], tokens: int | None, meta: ResponseMeta) -> bytes:
    """OpenAI's response. `vectors` are lists of numbers, or their JSON. `tokens` are those of the input; None: not reported."""
    response: dict[str, Any] = {
        "object": "list",
        "data": [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)],
        "model": meta.model,
    }
    if tokens is not None:
        response["usage"] = {"prompt_tokens": tokens, "total_tokens": tokens}
    return msgspec.json.encode(response)
