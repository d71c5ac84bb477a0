"""Links in messages."""

from urllib.parse import quote


def encode_segment(name: str) -> str:
    """A name as one segment of a path."""
    return quote(name, safe="")
