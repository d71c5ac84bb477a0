"""Files of a request: by their MIME type, else by how their bytes or their URL look, an image, a recording or a document."""

import re
from collections.abc import Mapping

import msgspec

from providers.canonical.chat import Audio, File, Image, Inline, Url
from providers.canonical.errors import InvalidRequest
from providers.canonical.media import MediaKind, read_url
from providers.dialects.tensorzero_inference.request_schema import Block

# How base64 begins of files of these types.
_MAGIC: Mapping[str, str] = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
    "JVBERi0": "application/pdf",
}
_DOCUMENT_URL = re.compile(r"\.(?:pdf|txt|md|csv|json|html?|docx?|xlsx?|pptx?)(?:[?#]|$)", re.IGNORECASE)
# OpenAI's names of formats, which the canonical chat has too.
_AUDIO_TYPES: Mapping[str, str] = {"audio/mpeg": "audio/mp3", "audio/x-wav": "audio/wav", "audio/wave": "audio/wav"}
_URL_CHARS = 2_048


def read_file(block: Block, path: str) -> Image | File | Audio:
    """Raises InvalidRequest for a file without content, or of a type that cannot be known."""
    source = _source(block, path)
    kind = media_kind(block)
    if kind == "image":
        return Image(source, block.detail)
    if kind == "audio":
        return Audio(source)
    return File(source, block.filename)


def media_kind(block: Block) -> MediaKind:
    mime_type = _mime_type(block)
    if mime_type is not None:
        return "image" if mime_type.startswith("image/") else "audio" if mime_type.startswith("audio/") else "file"
    if block.type == "file" and block.url is not None and _DOCUMENT_URL.search(block.url[:_URL_CHARS]) is not None:
        return "file"
    return "image"


def _source(block: Block, path: str) -> Inline | Url:
    if block.file_type not in (None, "url", "base64"):
        raise InvalidRequest(f"`{path}.file_type` must be url or base64: files are not stored here.", param=f"{path}.file_type")
    if block.url is not None:
        source = read_url(block.url)
        assert isinstance(source, Inline | Url)
        return source
    data = _data(block)
    if data is None:
        raise InvalidRequest(f"`{path}` must have `url` or `data`.", param=path)
    mime_type = _mime_type(block)
    if mime_type is None:
        raise InvalidRequest(
            f"`{path}.mime_type` is missing, and the file is of no type that is known by its bytes.", param=f"{path}.mime_type"
        )
    return Inline(_AUDIO_TYPES.get(mime_type, mime_type), data)


def _data(block: Block) -> str | None:
    raw = bytes(block.data)
    return msgspec.json.decode(raw) if raw[:1] == b'"' else None


def _mime_type(block: Block) -> str | None:
    if block.mime_type:
        return block.mime_type.lower()
    if block.url is not None:
        return block.url[5:_URL_CHARS].partition(";")[0].lower() or None if block.url[:5].lower() == "data:" else None
    raw = bytes(memoryview(block.data)[:24])
    text = raw.decode("ascii", "replace").removeprefix('"').replace("\\/", "/")
    return next((mime_type for magic, mime_type in _MAGIC.items() if text.startswith(magic)), None)
