"""What hosts with embeddings of a shape of their own share: how OpenAI's request is read, and its answer written."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from providers.dialect import Stamp
from providers.errors import Unsupported
from providers.provider import HINTS
from providers.wire import Body

# Done here, or the gateway's own.
_HERE = frozenset({"model", "input", "dimensions", "encoding_format", "stream", "episode_id", "tensorzero::episode_id", "tensorzero::tags"})


class Wanted(Struct):
    """`words`: the host's own, which callers may send as they are. `dropped`: hints, and what the caller let go."""

    texts: list[str]
    dimensions: int | None
    words: dict[str, Any]
    dropped: list[str]


def read_wanted(body: Body, who: str, may_drop: Callable[[str], bool], *, words: Collection[str] = (), most: int | None = None) -> Wanted:
    """`most`: texts in one request. Raises Unsupported for what the host cannot be asked; `who`: its name in that."""
    said = sorted(key for key in body.keys() - _HERE if body.said(key))
    dropped = [key for key in said if key not in words]
    for key in dropped:
        if key not in HINTS and not may_drop(key):
            raise unsupported(key, who, "its embeddings have no such field.")
    try:
        given = msgspec.convert(body.value("input"), str | list[str])
    except msgspec.ValidationError:
        field, what = ("input", "token ids") if body.said("input") else ("messages", "conversations")
        raise unsupported(field, who, f"it takes texts, and no {what}.") from None
    texts = [given] if isinstance(given, str) else given
    if most is not None and len(texts) > most:
        raise unsupported("input", who, f"it takes {most} in a request at most, not {len(texts)}: send several requests.")
    return Wanted(texts, body.value("dimensions"), {key: body.value(key) for key in said if key in words}, dropped)


def write_vectors(vectors: Sequence[Any], tokens: int | None, stamp: Stamp) -> bytes:
    """OpenAI's answer. `tokens`: of the input; None: not told."""
    answer: dict[str, Any] = {
        "object": "list",
        "data": [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)],
        "model": stamp.model,
    }
    if tokens is not None:
        answer["usage"] = {"prompt_tokens": tokens, "total_tokens": tokens}
    return msgspec.json.encode(answer)


def unsupported(field: str, who: str, why: str) -> Unsupported:
    return Unsupported(
        f"`{field}` cannot be honoured by {who:.120}: {why} Leave it out, choose another model, or send the header "
        f"`x-narthex-drop: {field}` to go without.",
        param=field,
    )
