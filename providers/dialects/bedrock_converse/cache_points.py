"""Cache points: Anthropic's `cache_control` of a block, written as a block after it."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.raw_json import DECODE_ERRORS, NULL
from providers.drop_policy import DropPolicy
from providers.profiles.bedrock.families import CachePosition, Family

CACHE_CONTROL = "cache_control"
_MAX_CACHE_POINTS = 4

Blocks = list[dict[str, Any]]


class _CacheControl(msgspec.Struct):
    ttl: str | None = None


_cache_control_decoder = msgspec.json.Decoder(_CacheControl)


def cache_point(extra: Mapping[str, Raw], position: CachePosition, path: str, family: Family, drop_policy: DropPolicy) -> Blocks:
    """A list of one cache point, or of none. A model that takes none at this position loses a hint, which is reported."""
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
    if ttl == "1h" and not family.caches_for_an_hour:
        drop_policy.drop_hint(f"{path}.{CACHE_CONTROL}.ttl")
        ttl = None
    return [{"cachePoint": {"type": "default", "ttl": "1h"} if ttl == "1h" else {"type": "default"}}]


def limit_cache_points(block_lists: list[Blocks], drop_policy: DropPolicy) -> None:
    """Keeps the last four, in place, which is Bedrock's maximum: a later point covers what an earlier one does.

    `block_lists` are in the order in which Bedrock reads them.
    """
    points = [(blocks, block) for blocks in block_lists for block in blocks if "cachePoint" in block]
    for blocks, point in points[:-_MAX_CACHE_POINTS]:
        blocks[:] = [block for block in blocks if block is not point]
        drop_policy.drop_hint(CACHE_CONTROL)
