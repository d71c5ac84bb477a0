"""UUIDv7: ids that carry their creation time in milliseconds.

Source: https://www.rfc-editor.org/rfc/rfc9562#name-uuid-version-7, read 2026-11.
"""

import random
import re
import time

_PATTERN = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE)


def mint(at_us: int | None = None) -> str:
    """A new id, created now or at `at_us` (microseconds of Unix time). It keeps the microsecond too, so one worker's ids sort by time."""
    # Ids are names, not secrets: a system call for each would cost more than everything else here.
    # Bytes and their hex() take half the time of one format string.
    digits = (first_half(at_us) << 64 | 0x8000_0000_0000_0000 | random.getrandbits(62)).to_bytes(16, "big").hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def first_half(at_us: int | None = None) -> int:
    """The 64 bits of an id that carry the time and the version."""
    microseconds = time.time_ns() // 1000 if at_us is None else at_us
    # Twelve bits after the version: the fraction of the millisecond (RFC 9562, 6.2, method 3).
    return microseconds // 1000 << 16 | 0x7000 | microseconds % 1000 * 4096 // 1000


def is_uuid7(text: str) -> bool:
    return _PATTERN.fullmatch(text) is not None


def created_ms(uuid7: str) -> int:
    """Returns the time at which the id was created, in milliseconds of Unix time."""
    return int(uuid7[:8] + uuid7[9:13], 16)


def lowest_at(milliseconds: int) -> str:
    """The smallest id of this moment: the lower bound of a range of time."""
    digits = f"{max(0, milliseconds):012x}"
    return f"{digits[:8]}-{digits[8:]}-7000-8000-000000000000"
