"""Models and functions in Google's shape. Source: https://ai.google.dev/api/models, read 2026-11."""

import time
from collections.abc import Sequence
from typing import Any

from litestar import Request

from app.api.callers.caller_route import TEXT, Schema, object_with
from app.gateway.fleet.fleet import Fleet
from app.gateway.routing.model_facts import ModelFacts, function_facts, model_facts
from app.store.configuration.snapshot_cache import SnapshotCache
from providers.canonical.errors import InvalidRequest

MAX_PAGE = 1_000
MODEL_SCHEMA: Schema = object_with(name=TEXT, displayName=TEXT, supportedGenerationMethods={"type": "array", "items": TEXT})
_PREFIX = "models/"


def list_page(snapshot_cache: SnapshotCache, fleet: Fleet, names: Sequence[str], request: Request[Any, Any, Any]) -> dict[str, Any]:
    """The page that `pageSize` and `pageToken` ask for. Raises InvalidRequest."""
    size, token = request.query_params.get("pageSize", ""), request.query_params.get("pageToken", "")
    if size and not size.isdigit():
        raise InvalidRequest("`pageSize` must be a number.", param="pageSize")
    start = 0 if not token else next((at for at, name in enumerate(names) if name > token), len(names))
    shown = names[start : start + min(int(size or 0) or MAX_PAGE, MAX_PAGE)]
    page: dict[str, Any] = {"models": [describe(snapshot_cache, fleet, name) for name in shown]}
    if start + len(shown) < len(names):
        page["nextPageToken"] = shown[-1]
    return page


def describe(snapshot_cache: SnapshotCache, fleet: Fleet, name: str) -> dict[str, Any]:
    snapshot = snapshot_cache.snapshot
    facts = model_facts if name in snapshot.models else function_facts
    return google_model(name, facts(snapshot, fleet.table, name, time.time()))


def google_model(name: str, facts: ModelFacts) -> dict[str, Any]:
    """Returns the fields that are known."""
    embeds = facts.capabilities is not None and "embeddings" in facts.capabilities
    chats = facts.capabilities is None or not embeds or "chat" in facts.capabilities
    methods = [*(["generateContent", "countTokens"] if chats else []), *(["embedContent"] if embeds else [])]
    model: dict[str, Any] = {"name": _PREFIX + name, "displayName": name, "supportedGenerationMethods": methods}
    if facts.context_length is not None:
        model["inputTokenLimit"] = facts.context_length
    if facts.capabilities is not None:
        model["thinking"] = "reasoning" in facts.capabilities
    return model
