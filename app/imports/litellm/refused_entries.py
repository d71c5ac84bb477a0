"""Entries of `model_list` that serve something that we do not."""

from typing import Any

_UNSUPPORTED_MODES = frozenset(
    {
        *("image_generation", "image_edit", "video_generation", "audio_transcription", "audio_speech", "moderation", "moderations"),
        *("realtime", "ocr", "search", "vector_store", "batch"),
    }
)
_UNSUPPORTED_NAMES = ("dall-e", "gpt-image", "whisper", "tts-", "gpt-4o-transcribe", "gpt-4o-mini-transcribe", "sora", "imagen-", "veo-")
_STRATEGIES = ("auto_router/", "complexity_router/", "adaptive_router/", "quality_router/")


def find_refusal(name: str, model: Any, mode: str | None) -> str | None:
    """Returns why an entry cannot be imported, as far as its names and its mode tell."""
    model_name = model if isinstance(model, str) else ""
    if "*" in name or "*" in model_name:
        return "A model has a name, not a pattern: write an entry for each model that callers may use, and import again."
    if model_name.startswith(_STRATEGIES):
        return "Nothing chooses a model by the content of a request: callers name the model, or a function whose variants are compared."
    bare = model_name.rpartition("/")[2]
    if mode in _UNSUPPORTED_MODES or (mode is None and bare.startswith(_UNSUPPORTED_NAMES)):
        return "Images, speech, moderation, searches, batches and realtime sessions are not served."
    return None
