"""ETag and If-Match: two editors of one resource cannot overwrite each other's changes unseen (RFC 9110, section 13)."""

import hashlib
import re
from typing import Any

import msgspec

from providers.canonical.errors import InvalidRequest, PreconditionFailed, PreconditionRequired

_TAGS = re.compile(r'\s*(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"\s*(?:,\s*(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"\s*)*')
_TAG = re.compile(r'(W/)?("[^"]*")')


def etag_of(content: Any) -> str:
    """The ETag of what an editor may change of a resource."""
    return f'"{hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()[:20]}"'


def check_match(if_match: str | None, current_etag: str | None) -> None:
    """Raises PreconditionRequired, PreconditionFailed or, for a malformed header, InvalidRequest.

    Where `current_etag` is None, the resource does not exist. Then a request without If-Match creates it.
    """
    if if_match is None:
        if current_etag is None:
            return
        raise PreconditionRequired(
            f"This changes an existing resource: send `If-Match: {current_etag}`, its current ETag, if you have seen its current state"
            " (GET shows it), or `If-Match: *` to change it in any state."
        )
    if current_etag is None:
        raise PreconditionFailed("If-Match was sent, and the resource does not exist.")
    if if_match.strip() == "*":
        return
    if not _TAGS.fullmatch(if_match):
        raise InvalidRequest('If-Match must be an ETag in double quotes, such as "0a1b2c3d", or *.', param="If-Match")
    # A weak tag never matches: it says that two states are similar.
    if current_etag not in {tag for weak, tag in _TAG.findall(if_match) if not weak}:
        raise PreconditionFailed(
            f"Somebody else has changed it since: its ETag is now {current_etag}. GET it again, and apply your change to that state."
        )
