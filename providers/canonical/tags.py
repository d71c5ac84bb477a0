"""Tags of a request, which are looked up, counted and stored: how many there may be, and how long."""

from collections.abc import Mapping

from providers.canonical.errors import InvalidRequest

MAX_TAGS = 64
_MAX_CHARACTERS = 512


def check_tags(tags: Mapping[str, str]) -> None:
    """Raises InvalidRequest."""
    if len(tags) > MAX_TAGS or any(len(key) > _MAX_CHARACTERS or len(value) > _MAX_CHARACTERS for key, value in tags.items()):
        raise too_many_tags()


def too_many_tags() -> InvalidRequest:
    return InvalidRequest(
        f"At most {MAX_TAGS} tags (or metadata) of at most {_MAX_CHARACTERS} characters each can be kept.", param="metadata"
    )
