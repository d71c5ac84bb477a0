"""Media as parts: bytes as inlineData, URLs as fileData, which requires the type of the file.

Sources: https://ai.google.dev/api/caching#Part, https://ai.google.dev/gemini-api/docs/document-processing, read 2026-11.
"""

from collections.abc import Mapping
from typing import Any

import httpx2

from providers.canonical.chat import Audio, File, Image, Inline, Uploaded, Url
from providers.drop_policy import DropPolicy

_TYPES_BY_EXTENSION: Mapping[str, str] = {
    **dict.fromkeys(("jpg", "jpeg"), "image/jpeg"),
    **{extension: f"image/{extension}" for extension in ("png", "webp", "gif", "heic", "heif")},
    "pdf": "application/pdf",
    **dict.fromkeys(("txt", "md", "csv"), "text/plain"),
    "html": "text/html",
    "wav": "audio/wav",
    "mp3": "audio/mp3",
    **{extension: f"audio/{extension}" for extension in ("aac", "ogg", "flac", "aiff")},
    "mp4": "video/mp4",
}

_GOOGLE_URLS = ("https://generativelanguage.googleapis.com/v1beta/files/", "https://www.youtube.com/watch?", "https://youtu.be/")


def write_media(part: Image | File | Audio, path: str, drop_policy: DropPolicy) -> dict[str, Any] | None:
    """The part. None if it was dropped."""
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
                drop_policy.drop_or_refuse(path, "it needs to know what kind of file is at a URL, and this one has no known extension.")
                return None
            return {"fileData": {"mimeType": media_type, "fileUri": url}}
        case Uploaded():
            drop_policy.drop_or_refuse(path, "the file is kept by another host.")
            return None


def is_google_url(url: str) -> bool:
    """Whether Google knows the type of the file: it was uploaded to AI Studio, or is a YouTube video."""
    return url.startswith(_GOOGLE_URLS)


def media_type_of_url(url: str) -> str | None:
    """The media type of the file at a URL, by its extension. None if that is unknown."""
    try:
        path = httpx2.URL(url).path
    except httpx2.InvalidURL:
        return None
    return _TYPES_BY_EXTENSION.get(path.rpartition("/")[2].rpartition(".")[2].lower())
