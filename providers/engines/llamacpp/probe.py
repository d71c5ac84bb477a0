"""Probe of llama.cpp's server. Source: docs/sources.md#llamacpp, read 2026-11."""

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any, cast

from providers.adapters.engine_load import LoadMetrics
from providers.adapters.lora import LoadedAdapters
from providers.adapters.probe import ALL_MODELS, EngineProbe, ImageSupport, ListedModel, ProbeResponses, list_at, object_at, version_at


def _is_llamacpp(responses: ProbeResponses) -> bool:
    return "default_generation_settings" in object_at(responses, "/props")


def _read_lora_adapters(responses: ProbeResponses, models: Sequence[ListedModel] | None, router: str | None) -> LoadedAdapters:
    """llama.cpp lists the id and the file of each: an adapter is named by its full path, or by the file's name without its ending."""
    entries = list_at(responses, "/lora-adapters")
    if entries is None:
        return None
    ids: dict[str, int] = {}
    for each in entries:
        entry = cast("dict[str, Any]", each) if isinstance(each, dict) else {}
        if isinstance(entry.get("path"), str) and type(entry.get("id")) is int:
            ids[entry["path"]] = entry["id"]
    # The name of two files selects neither.
    stem_counts = Counter(PurePosixPath(path).stem for path in ids)
    return {**ids, **{stem: id for path, id in ids.items() if stem_counts[stem := PurePosixPath(path).stem] == 1}}


def _read_image_support(responses: ProbeResponses) -> ImageSupport:
    """Reads `modalities` of /props, of a server with one model: without a projector (--mmproj) it refuses every image."""
    modalities: object = object_at(responses, "/props").get("modalities")
    vision = cast("dict[str, Any]", modalities).get("vision") if isinstance(modalities, dict) else None
    return {ALL_MODELS: vision} if isinstance(vision, bool) else {}


LLAMACPP_PROBE = EngineProbe(
    "/health",
    ("/props", "/lora-adapters"),
    owner="llamacpp",
    is_recognised=_is_llamacpp,
    read_version=version_at("/props", field="build_info"),
    read_lora_adapters=_read_lora_adapters,
    read_image_support=_read_image_support,
    load_metrics=LoadMetrics((b"llamacpp:requests_processing",), (b"llamacpp:requests_deferred",)),
)
