"""Rules of the content policy `masked`: their validation, how teams store them, and their patterns.

Patterns are of RE2, whose time is linear in the text for every pattern: a pattern of Python's `re` can take for ever. They are compiled
with a bound on their memory.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, cast

import msgspec
import re2  # pyright: ignore[reportMissingTypeStubs]

from app.domain.callers import MaskConfig
from app.domain.errors import InvalidKeyField

MAX_PATTERNS = 20
MAX_PATTERN_CHARACTERS = 500
_MAX_PATTERN_MEMORY_BYTES = 1024 * 1024
_MAX_PROGRAM = 1_000  # instructions; each may run once for each byte of the text
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")


class Pattern:
    """A compiled pattern for text in UTF-8; for any bytes if not `is_text`. Raises ValueError if it is not one of RE2, or needs too much
    memory.
    """

    def __init__(self, pattern: str, *, max_memory_bytes: int = _MAX_PATTERN_MEMORY_BYTES, is_text: bool = True) -> None:
        options = cast(Any, re2).Options()
        options.max_mem = max_memory_bytes
        if not is_text:
            options.encoding = options.Encoding.LATIN1
        options.log_errors = False
        try:
            self._compiled = cast(Any, re2).compile(pattern.encode(), options)
        except (cast(Any, re2).error, UnicodeEncodeError) as fault:
            raise ValueError(_message(fault)) from None
        self.instructions: int = self._compiled.programsize

    def find_all(self, text: bytes) -> Iterator[tuple[int, int]]:
        """The places of all matches that do not overlap, from left to right. Other threads run meanwhile."""
        for match in self._compiled.finditer(text):
            begin, end = match.span()
            if begin < end:
                yield begin, end

    def find(self, text: bytes, start: int) -> tuple[int, int] | None:
        """The first match from there on."""
        match = self._compiled.search(text, start)
        return None if match is None else match.span()

    def matches_nothing(self) -> bool:
        """Whether it matches an empty text, and so everywhere."""
        return self._compiled.fullmatch(b"") is not None


def check_mask(mask: MaskConfig) -> MaskConfig:
    """The rules. Raises InvalidKeyField."""
    if len(mask.patterns) > MAX_PATTERNS:
        raise InvalidKeyField("mask", f"`mask.patterns` has {len(mask.patterns)} entries; there may be {MAX_PATTERNS}.")
    if not mask.detectors and not mask.patterns:
        raise InvalidKeyField("mask", '`mask` has no rule: leave it out for all built-in detectors, or use the policy "full".')
    for name, pattern in mask.patterns.items():
        if not _NAME.fullmatch(name):
            raise InvalidKeyField(
                "mask", f"`mask.patterns`: a name is like employee_number, with at most 32 characters, unlike {name!r:.60}."
            )
        if not pattern or len(pattern) > MAX_PATTERN_CHARACTERS:
            raise InvalidKeyField("mask", f"`mask.patterns.{name}` has from 1 to {MAX_PATTERN_CHARACTERS} characters.")
        try:
            compiled = Pattern(pattern)
        except ValueError as fault:
            raise InvalidKeyField("mask", f"`mask.patterns.{name}` is not a regular expression of RE2: {fault}.") from None
        if compiled.instructions > _MAX_PROGRAM:
            raise InvalidKeyField("mask", f"`mask.patterns.{name}` is too large: use smaller repetitions.")
        if compiled.matches_nothing():
            raise InvalidKeyField("mask", f"`mask.patterns.{name}` also matches an empty text, and so everywhere.")
    return msgspec.structs.replace(mask, detectors=tuple(dict.fromkeys(mask.detectors)))


def mask_column(mask: MaskConfig) -> Mapping[str, Any] | None:
    """The column of a team: null for the default. Raises InvalidKeyField."""
    return None if mask == _DEFAULT else msgspec.to_builtins(check_mask(mask))


def from_mask_column(stored: Mapping[str, Any] | str | None) -> MaskConfig:
    """Reads the rules from JSON as SQLAlchemy decodes it or, as text, as asyncpg returns it."""
    if stored is None:
        return _DEFAULT
    return _decode(stored) if isinstance(stored, str) else msgspec.convert(stored, MaskConfig)


_DEFAULT = MaskConfig()


@lru_cache(1024)
def _decode(stored: str) -> MaskConfig:
    """One object for all callers of a team."""
    return msgspec.json.decode(stored, type=MaskConfig)


def _message(fault: Exception) -> str:
    text = fault.args[0] if fault.args else str(fault)
    return (text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)).rstrip(".")
