"""Cache points: what Anthropic's callers say of a block (`cache_control`) as a block after it."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.raw_json import DECODE_ERRORS, NULL
from providers.dialect import DropPolicy
from providers.profiles.bedrock_families import CachePosition, Family

CACHE_CONTROL = "cache_control"
_MAX_CACHE_POINTS = 4

Blocks = list[dict[str, Any]]


class _CacheControl(msgspec.Struct):
    ttl: str | None = None


_cache_control_decoder = msgspec.json.Decoder(_CacheControl)


def cache_point(extra: Mapping[str, Raw], position: CachePosition, path: str, family: Family, drop_policy: DropPolicy) -> Blocks:
    """One or none. For a model that takes none there it is a hint that goes."""
    raw_control = extra.get(CACHE_CONTROL, NULL)
    if raw_control == NULL:
        return []
    if position not in family.cache_positions:
        drop_policy.drop_hint(f"{path}.{CACHE_CONTROL}")
        return []
    try:
        ttl = _cache_control_decoder.decode(raw_control).ttl
    except DECODE_ERRORS:
        ttl = None
    return [{"cachePoint": {"type": "default", "ttl": "1h"} if ttl == "1h" else {"type": "default"}}]


def limit_cache_points(block_lists: list[Blocks], drop_policy: DropPolicy) -> None:
    """It takes four: the first are left out, for the later ones hold what those do. `lists` in the order in which it reads them."""
    points = [(blocks, block) for blocks in block_lists for block in blocks if "cachePoint" in block]
    for blocks, point in points[:-_MAX_CACHE_POINTS]:
        blocks[:] = [block for block in blocks if block is not point]
        drop_policy.drop_hint(CACHE_CONTROL)
