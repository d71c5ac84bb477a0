"""Images, documents and audio as Converse takes them: in bytes or from a bucket of S3, each kind in formats that it names.

Source: the service model of Bedrock Runtime in botocore 1.44, read 2026-11; documents as text by aws_bedrock/11 of the recordings.
"""

import base64
import mimetypes
from collections.abc import Mapping
from typing import Any

from providers.chat import Audio, File, Image, Inline, Source, Url

_IMAGES: Mapping[str, str] = {"image/png": "png", "image/jpeg": "jpeg", "image/jpg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
_DOCUMENTS: Mapping[str, str] = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "text/html": "html",
    "text/markdown": "md",
    "text/plain": "txt",
    # Texts too, of which it has no names.
    "application/json": "txt",
    "application/xml": "txt",
}
_AUDIO: Mapping[str, str] = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
    "audio/flac": "flac",
    "audio/ogg": "ogg",
    "audio/opus": "opus",
    "audio/aac": "aac",
    "audio/mp4": "m4a",
    "audio/m4a": "m4a",
    "audio/webm": "webm",
}
_BUCKETS = "s3://"
Refused = str


def write_image(image: Image) -> dict[str, Any] | Refused:
    """The block, or why there can be none."""
    return _write("image", image.source, _IMAGES, "its images are PNG, JPEG, GIF or WebP")


def write_audio(audio: Audio) -> dict[str, Any] | Refused:
    return _write("audio", audio.source, _AUDIO, "its audio is WAV, MP3, FLAC, Ogg, Opus, AAC, M4A or WebM")


def write_document(file: File, name: str, *, cited: bool) -> dict[str, Any] | Refused:
    """`cited`: places in it are to be told, of a text those of its characters."""
    kinds = _DOCUMENTS
    if isinstance(file.source, Inline) and file.source.media_type.startswith("text/") and file.source.media_type not in kinds:
        kinds = {file.source.media_type: "txt"}
    block = _write("document", file.source, kinds, "its documents are PDF, Word, Excel, CSV, HTML, Markdown or text")
    if isinstance(block, str):
        return block
    document = block["document"]
    if cited and document["format"] == "txt" and (text := _text(document["source"].get("bytes", ""))):
        document["source"] = {"text": text}
    document["name"] = name
    if cited:
        document["citations"] = {"enabled": True}
    return block


def is_in_bucket(address: str) -> bool:
    """Addresses that it reads itself: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_S3Location.html, read 2026-11."""
    return address.startswith(_BUCKETS)


def _write(kind: str, source: Source, formats: Mapping[str, str], rule: str) -> dict[str, Any] | Refused:
    match source:
        case Inline(media_type, data):
            held = {"bytes": data}
        case Url(url) if is_in_bucket(url):
            media_type, held = mimetypes.guess_type(url)[0] or "a file without a known ending", {"s3Location": {"uri": url}}
        case _:
            return f"it takes bytes, or an address that begins with {_BUCKETS}"
    format = formats.get(media_type)
    return f"{rule}, not {media_type:.60}." if format is None else {kind: {"format": format, "source": held}}


def _text(data: str) -> str | None:
    try:
        return base64.b64decode(data).decode()
    except ValueError:  # no base64, or no UTF-8
        return None
