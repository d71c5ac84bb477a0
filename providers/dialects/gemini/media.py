"""Media as parts: bytes as inlineData, addresses as fileData, which needs to know what kind of file is there.

Sources: https://ai.google.dev/api/caching#Part, https://ai.google.dev/gemini-api/docs/document-processing, read 2026-11.
"""

from collections.abc import Mapping
from typing import Any

import httpx

from providers.canonical.chat import Audio, File, Image, Inline, Uploaded, Url
from providers.dialect import DropPolicy

_TYPES_BY_EXTENSION: Mapping[str, str] = {
    **dict.fromkeys(("jpg", "jpeg"), "image/jpeg"),
    **{ending: f"image/{ending}" for ending in ("png", "webp", "gif", "heic", "heif")},
    "pdf": "application/pdf",
    **dict.fromkeys(("txt", "md", "csv"), "text/plain"),
    "html": "text/html",
    "wav": "audio/wav",
    "mp3": "audio/mp3",
    **{ending: f"audio/{ending}" for ending in ("aac", "ogg", "flac", "aiff")},
    "mp4": "video/mp4",
}

_GOOGLE_URLS = ("https://generativelanguage.googleapis.com/v1beta/files/", "https://www.youtube.com/watch?", "https://youtu.be/")


def write_media(part: Image | File | Audio, path: str, drop_policy: DropPolicy) -> dict[str, Any] | None:
    """None for what is not said."""
    if isinstance(part, Image) and part.detail not in (None, "auto"):
        drop_policy.drop_hint(f"{path}.detail")
    if isinstance(part, File) and part.name is not None:
        drop_policy.drop_hint(f"{path}.name")
    match part.source:
        case Inline(media_type, data):
            return {"inlineData": {"mimeType": media_type, "data": data}}
        case Url(url) if is_google_url(url):
            return {"fileData": {"fileUri": url}}
        case Url(url):
            media_type = media_type_of_url(url)
            if media_type is None:
                drop_policy.drop_or_refuse(
                    path, "it wants to be told what kind of file is at an address, and this one's ending does not tell."
                )
                return None
            return {"fileData": {"mimeType": media_type, "fileUri": url}}
        case Uploaded():
            drop_policy.drop_or_refuse(path, "the file is kept by another host.")
            return None


def is_google_url(url: str) -> bool:
    """Whether Google knows of itself what is there: a file that was uploaded to AI Studio, a video of YouTube's."""
    return url.startswith(_GOOGLE_URLS)


def media_type_of_url(url: str) -> str | None:
    """What kind of file is at an address, where its ending tells."""
    try:
        path = httpx.URL(url).path
    except httpx.InvalidURL:
        return None
    return _TYPES_BY_EXTENSION.get(path.rpartition("/")[2].rpartition(".")[2].lower())
