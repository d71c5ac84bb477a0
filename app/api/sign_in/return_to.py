"""The page that a browser returns to after signing in.

It belongs to this server or to an origin that may use the server from scripts; no other page is accepted.
"""

import re
from collections.abc import Collection

from app.settings import PublicUrl
from providers.canonical.errors import InvalidRequest

_MAX_CHARACTERS = 1_000  # it is kept in a cookie
# A path. Browsers take a backslash for a slash, and two slashes at the beginning for another host; they drop control characters.
_PATH = re.compile(r"/(?![/\\])[!-\[\]-~]*")
_URL = re.compile(r"(?P<origin>https?://[^/?#\\@]+)(?:[/?#][!-\[\]-~]*)?")


def check_return_to(target: str, public_url: PublicUrl, origins: Collection[str]) -> str:
    """The address, complete. `origins` are the other ones that are permitted. Raises InvalidRequest."""
    if len(target) <= _MAX_CHARACTERS:
        if _PATH.fullmatch(target):
            return public_url.origin + target
        match = _URL.fullmatch(target)
        if match is not None and match["origin"] in {public_url.origin, *origins}:
            return target
    raise InvalidRequest(
        "`return_to` must be a path of this server, such as /docs, or an address at one of the origins in NARTHEX_CORS_ORIGINS, and have at"
        f" most {_MAX_CHARACTERS:,} characters.",
        param="return_to",
    )
