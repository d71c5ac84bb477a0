"""The media type of fetched bytes: the Content-Type, corrected by the first bytes."""

import re

# Content types that only mean "some bytes".
_UNSPECIFIC_TYPES = frozenset({"", "application/octet-stream", "binary/octet-stream", "application/binary", "application/force-download"})
_TYPE_PATTERN = re.compile(r"[a-z0-9][a-z0-9.+-]{0,63}/[a-z0-9][a-z0-9.+-]{0,126}")
# Office documents are application/vnd.*; HTML is usually a login page or an error page.
_USABLE_TYPES = re.compile(r"(?:image|audio|video)/.+|text/(?!html$).+|application/(?:pdf|json|xml|rtf|msword|epub\+zip|vnd\..+)")

_MAGIC_BYTES = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
    (re.compile(rb"RIFF....WAVE", re.DOTALL), "audio/wav"),
    (re.compile(rb"ID3[\x02-\x04]|\xff[\xfb\xfa\xf3\xf2]"), "audio/mpeg"),
    (re.compile(rb"%PDF-"), "application/pdf"),
)


def detect_media_type(content_type: str, first_bytes: bytes) -> str | None:
    """The type by the Content-Type header and the first bytes; None if it is not known, or not one that models accept.

    Recognised bytes override a declared type of the same family: hosts refuse a JPEG labelled image/png or image/jpg.
    """
    declared = content_type.partition(";")[0].strip().lower()
    detected = next((kind for signature, kind in _MAGIC_BYTES if signature.match(first_bytes)), None)
    if declared in _UNSPECIFIC_TYPES or (detected is not None and detected.partition("/")[0] == declared.partition("/")[0]):
        return detected
    return declared if _TYPE_PATTERN.fullmatch(declared) and _USABLE_TYPES.fullmatch(declared) else None
