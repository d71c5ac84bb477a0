"""Images, documents and audio for Converse: in bytes or from an S3 bucket, each with a format that Bedrock names.

Source: the service model of Bedrock Runtime in botocore 1.44, read 2026-11; documents as text by aws_bedrock/11 of the recordings.
"""

import base64
import mimetypes
from collections.abc import Mapping
from typing import Any

from providers.canonical.chat import Audio, File, Image, Inline, Source, Url

_IMAGE_FORMATS: Mapping[str, str] = {
    "image/png": "png",
    "image/jpeg": "jpeg",
    "image/jpg": "jpeg",
    "image/gif": "gif",
    "image/webp": "webp",
}
_DOCUMENT_FORMATS: Mapping[str, str] = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "text/html": "html",
    "text/markdown": "md",
    "text/plain": "txt",
    # Text formats without a name of their own.
    "application/json": "txt",
    "application/xml": "txt",
}
_AUDIO_FORMATS: Mapping[str, str] = {
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
_S3_PREFIX = "s3://"
RefusalReason = str


def write_image(image: Image) -> dict[str, Any] | RefusalReason:
    """The block, or why the image cannot be sent."""
    return _write_media("image", image.source, _IMAGE_FORMATS, "its images are PNG, JPEG, GIF or WebP")


def write_audio(audio: Audio) -> dict[str, Any] | RefusalReason:
    return _write_media("audio", audio.source, _AUDIO_FORMATS, "its audio is WAV, MP3, FLAC, Ogg, Opus, AAC, M4A or WebM")


def write_document(file: File, name: str, *, with_citations: bool) -> dict[str, Any] | RefusalReason:
    """The block, or why the document cannot be sent. With citations, a text is sent as text, so that they count characters."""
    formats = _DOCUMENT_FORMATS
    if isinstance(file.source, Inline) and file.source.media_type.startswith("text/") and file.source.media_type not in formats:
        formats = {file.source.media_type: "txt"}
    block = _write_media("document", file.source, formats, "its documents are PDF, Word, Excel, CSV, HTML, Markdown or text")
    if isinstance(block, str):
        return block
    document = block["document"]
    if with_citations and document["format"] == "txt" and (text := _decode_text(document["source"].get("bytes", ""))):
        document["source"] = {"text": text}
    document["name"] = name
    if with_citations:
        document["citations"] = {"enabled": True}
    return block


def is_s3_url(url: str) -> bool:
    """Whether Bedrock reads the URL itself.

    Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_S3Location.html, read 2026-11.
    """
    return url.startswith(_S3_PREFIX)


def _write_media(kind: str, source: Source, formats: Mapping[str, str], rule: str) -> dict[str, Any] | RefusalReason:
    match source:
        case Inline(media_type, data):
            content = {"bytes": data}
        case Url(url) if is_s3_url(url):
            media_type, content = mimetypes.guess_type(url)[0] or "a file without a known extension", {"s3Location": {"uri": url}}
        case _:
            return f"it takes bytes, or a URL that begins with {_S3_PREFIX}"
    format = formats.get(media_type)
    return f"{rule}, not {media_type:.60}." if format is None else {kind: {"format": format, "source": content}}


def _decode_text(data: str) -> str | None:
    try:
        return base64.b64decode(data).decode()
    except ValueError:  # invalid base64 or UTF-8
        return None
