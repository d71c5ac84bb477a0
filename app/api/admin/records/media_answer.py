"""Media of recorded requests and responses as answers: shown by browsers only if nothing in them can run."""

import base64
import binascii

from app.api.rest.operation import Answer
from providers.canonical.chat import Inline

# Whatever else callers send, an SVG or an HTML page that they call an image, is a download.
SHOWN = frozenset(
    {
        *("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"),
        *("audio/mpeg", "audio/mp3", "audio/wav", "audio/x-wav", "audio/ogg", "audio/flac", "audio/webm", "audio/mp4", "audio/aac"),
    }
)


def decode_media(media: Inline) -> bytes:
    """Decodes the media; what is no base64, because a policy took it away, is nothing."""
    try:
        return base64.b64decode(media.data + "=" * (-len(media.data) % 4), validate=False)
    except (binascii.Error, ValueError):
        return b""


def media_answer(content: bytes, media_type: str) -> Answer:
    kind = media_type.partition(";")[0].strip().lower()
    is_shown = kind in SHOWN
    headers = {
        "content-security-policy": "sandbox; default-src 'none'",
        "x-content-type-options": "nosniff",
        "content-disposition": "inline" if is_shown else 'attachment; filename="media"',
    }
    return Answer(content, headers=headers, media_type=kind if is_shown else "application/octet-stream")
