"""Encoding of commands in RESP, Redis's protocol."""

from collections.abc import Iterable


def bulk(text: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(text), text)


def array(count: int) -> bytes:
    return b"*%d\r\n" % count


def command(parts: Iterable[bytes]) -> bytes:
    arguments = tuple(parts)
    return array(len(arguments)) + b"".join(map(bulk, arguments))
