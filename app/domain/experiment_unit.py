"""The hashes by which experiments draw, and by which records name a unit: the same by whoever assigns units, looks back, or erases them.

Records hang on these functions: they must never return anything else.
"""

import hashlib


def team_unit(team_id: str) -> bytes:
    return team_id.encode()


def value_unit(team_id: str, value: str) -> bytes:
    """Returns the unit of an end user or a tag's value. It includes the team, as no two teams share a unit."""
    # surrogatepass: JSON may hold half a surrogate pair.
    return f"{team_id}\0{value}".encode("utf-8", "surrogatepass")


def episode_unit(team_id: str, episode_id: str) -> bytes:
    return b"%b\0%b" % (team_id.encode(), bytes.fromhex(episode_id.replace("-", "")))


def draw(purpose: bytes, salt: str, unit: bytes) -> bytes:
    """Returns 8 bytes. Draws for different purposes, or with different salts, are independent."""
    salted = salt.encode()
    fields = (purpose, len(salted).to_bytes(4, "big"), salted, len(unit).to_bytes(4, "big"), unit)
    return hashlib.blake2b(b"\0".join(fields), digest_size=8).digest()


def draw_enrolment(salt: str, unit: bytes) -> bytes:
    """Returns the draw that decides whether the unit takes part.

    Its hexadecimal digits are the unit's hash in records.
    """
    return draw(b"enrolment", salt, unit)
