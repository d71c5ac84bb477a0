"""Names of variants and experiments in headers, which hold ASCII: what is none is percent-encoded UTF-8, and so is a percent sign."""

from urllib.parse import quote, unquote_to_bytes

_AS_THEY_ARE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")


def write_header_name(name: str) -> bytes:
    if name.isascii() and name.isprintable() and "%" not in name:
        return name.encode()
    return quote(name, safe=_AS_THEY_ARE, errors="replace").encode()


def read_header_name(value: bytes) -> str:
    """Reads a name as callers send it: percent-encoded, or the bytes of the name itself, in UTF-8 or Latin-1."""
    raw = unquote_to_bytes(value)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")
