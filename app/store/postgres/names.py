"""The rules for names, and the bounds of names and priorities."""

from app.domain.callers import MAX_PRIORITY
from app.domain.errors import InvalidKeyField


def is_name(text: str) -> bool:
    return bool(text) and text == text.strip() and text.isprintable()


MAX_NAME_CHARACTERS = 200


def check_team(name: str) -> str:
    if not name or name != name.strip() or not name.isprintable() or len(name) > MAX_NAME_CHARACTERS:
        raise InvalidKeyField(
            "team",
            f"A team's name has 1 to {MAX_NAME_CHARACTERS} printable characters and no space at its ends, unlike {name!r:.60}.",
        )
    return name


def check_priority(priority: int) -> int:
    if not -MAX_PRIORITY <= priority <= MAX_PRIORITY:
        raise InvalidKeyField("priority", f"A priority is from {-MAX_PRIORITY} to {MAX_PRIORITY}, not {priority}.")
    return priority
