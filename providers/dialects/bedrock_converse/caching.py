"""Cache points: what Anthropic's callers say of a block (`cache_control`) as a block after it."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from providers.dialect import Concessions
from providers.dialects.bedrock_converse.families import Family, Place
from providers.wire import NULL, UNREADABLE

KEY = "cache_control"
_MOST = 4

Blocks = list[dict[str, Any]]


class _Control(msgspec.Struct):
    ttl: str | None = None


_control = msgspec.json.Decoder(_Control)


def cache_point(extra: Mapping[str, Raw], place: Place, path: str, family: Family, concessions: Concessions) -> Blocks:
    """One or none. For a model that takes none there it is a hint that goes."""
    said = extra.get(KEY, NULL)
    if said == NULL:
        return []
    if place not in family.caches:
        concessions.hint(f"{path}.{KEY}")
        return []
    try:
        ttl = _control.decode(said).ttl
    except UNREADABLE:
        ttl = None
    return [{"cachePoint": {"type": "default", "ttl": "1h"} if ttl == "1h" else {"type": "default"}}]


def hold_most(lists: list[Blocks], concessions: Concessions) -> None:
    """It takes four: the first are left out, for the later ones hold what those do. `lists` in the order in which it reads them."""
    points = [(blocks, block) for blocks in lists for block in blocks if "cachePoint" in block]
    for blocks, point in points[:-_MOST]:
        blocks[:] = [block for block in blocks if block is not point]
        concessions.hint(KEY)
