"""The field of an entry that a message about the configuration names, so that a form can show the message there."""

import re

_FIELD = re.compile(r"(?:\.\w+|\[\d+\])+")
_ENTRY_WITHOUT_NAME = re.compile(r'\w+\["[^\]]*"\]')  # as app/store/configuration/validation/paths.py writes it


def refused_field(message: str, section: str, name: str) -> str | None:
    """The field, as bodies have it, that a message begins with; None: it is about something else, or all of the entry."""
    place = f"{section}.{name}"
    if message.startswith(f"{section}.{name!r}"):
        return "name"
    if not message.startswith(place):
        found = _ENTRY_WITHOUT_NAME.match(message)
        if found is None or not message.startswith(section):
            return None
        place = found[0]
    field = _FIELD.match(message, len(place))
    return None if field is None else field[0].removeprefix(".")
