"""The built files of the dashboard and of the API reference: read once, with the compressed bytes that the build prepared.

The manifest names each file. Scripts and styles are stored compressed alone (NAME.br, NAME.gz); what they are made of is in dashboard/.
"""

import asyncio
import gzip
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

STATIC_FOLDER = Path(__file__).parent / "static"

Coding = Literal["br", "gzip", "identity"]
_BEST_FIRST: tuple[Coding, ...] = ("br", "gzip")


class BuiltFile(Struct, frozen=True):
    """A file as the manifest describes it."""

    media_type: str
    bytes: int  # of the plain file
    gzip_bytes: int | None
    first: bool  # whether the dashboard's first screen needs it
    reference: bool  # whether the API reference needs it


class Manifest(Struct, frozen=True):
    """The description of a build. `sources` is the hash of what it was made of, as dashboard/check_build.py makes it."""

    sources: str
    files: dict[str, BuiltFile]


class StaticFile(NamedTuple):
    """A file as it is served, in each coding that there is. `reference`: the API reference needs it."""

    media_type: str
    etag: str
    content: Mapping[Coding, bytes]
    reference: bool = False


class StaticFiles:
    """All files by their names: read for the first request, in a thread."""

    def __init__(self) -> None:
        self._found: Mapping[str, StaticFile] | None = None
        self._reading = asyncio.Lock()

    async def all(self) -> Mapping[str, StaticFile]:
        async with self._reading:
            if self._found is None:
                self._found = await asyncio.to_thread(read_static_files)
            return self._found


def read_manifest() -> Manifest:
    return msgspec.json.decode((STATIC_FOLDER / "manifest.json").read_bytes(), type=Manifest)


def read_static_files() -> dict[str, StaticFile]:
    return {name: _read(name, built) for name, built in read_manifest().files.items()}


def best_coding(file: StaticFile, accept_encoding: str) -> Coding:
    """The smallest coding of those that the client accepts (RFC 9110, section 12.5.3)."""
    accepted: set[str] = set()
    for each in accept_encoding.lower().split(","):
        coding, _, weight = each.partition(";")
        if weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000"):
            accepted.add(coding.strip())
    for coding in _BEST_FIRST:
        if coding in accepted and coding in file.content:
            return coding
    return "identity"


def _read(name: str, built: BuiltFile) -> StaticFile:
    if built.gzip_bytes is None:
        content: dict[Coding, bytes] = {"identity": (STATIC_FOLDER / name).read_bytes()}
    else:
        compressed = (STATIC_FOLDER / f"{name}.gz").read_bytes()
        content = {"br": (STATIC_FOLDER / f"{name}.br").read_bytes(), "gzip": compressed, "identity": gzip.decompress(compressed)}
    return StaticFile(built.media_type, hashlib.sha256(content["identity"]).hexdigest()[:20], content, built.reference)
