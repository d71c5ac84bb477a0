"""Fields that are not open to callers: by them a request would choose a model, an adapter, a place or code that its key does not name.

Which they are is data of each adapter, with the options `refuses` and `accepts` of its provider. A field travels through translations
that do not know it, so the check is of the body that is about to be sent, whichever way it was made.
"""

from collections.abc import Callable, Collection, Mapping

import msgspec
from msgspec import Raw

from providers.canonical.errors import InvalidRequest
from providers.canonical.extra_fields import as_raw
from providers.canonical.parse_body import undecodable
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.fields import FIELDS

# Compared as JSON, for in Python 0 equals False, and slot 0 or rank 0 is a choice.
_EMPTY_VALUES = frozenset({b"null", b"false", b'""', b"[]", b"{}"})
_UNKNOWN_CHOICE = "what its operator does not leave to callers"


class RestrictedFields:
    """The fields that one provider does not take from callers. A name with a dot is a field inside an object."""

    def __init__(self, choices: Mapping[str, str], refused: Collection[str] = (), accepted: Collection[str] = ()) -> None:
        """Takes what each field chooses (`choices`), and the fields that the operator adds (`refused`) and takes out (`accepted`)."""
        self._choices = {
            name: choice for name, choice in {**dict.fromkeys(refused, _UNKNOWN_CHOICE), **choices}.items() if name not in accepted
        }
        # What to look for first: most bodies have none of these.
        self.top_level_names = frozenset(name.partition(".")[0] for name in self._choices)

    def drop_or_refuse(self, body: Body, target_name: str, may_drop: Callable[[str], bool]) -> list[str]:
        """Removes the fields that the caller allows to be dropped, and returns them. Raises InvalidRequest for any other.

        A field that is null, false or empty chooses nothing, and stays.
        """
        dropped: list[str] = []
        for name in sorted(self.top_level_names & body.keys()):
            if name in self._choices:
                self._check(name, body, name, target_name, may_drop, dropped)
                continue
            try:
                fields = Body.read(bytes(as_raw(body[name])))
            except msgspec.ValidationError:
                continue  # no object
            except DECODE_ERRORS as fault:  # an engine may read it all the same
                raise undecodable(fault, param=name) from None
            for path in [path for path in self._choices if path.startswith(name + ".")]:
                self._check(path, fields, path.removeprefix(name + "."), target_name, may_drop, dropped)
            if any(path.startswith(name + ".") for path in dropped):
                body[name] = fields
        return dropped

    def _check(self, path: str, fields: Body, name: str, target_name: str, may_drop: Callable[[str], bool], dropped: list[str]) -> None:
        if name not in fields or _chooses_nothing(path, as_raw(fields[name])):
            return
        if not may_drop(path) and not may_drop(path.partition(".")[0]):
            raise InvalidRequest(
                f"`{path}` is not open to callers of {target_name}: it would choose {self._choices[path]}. Leave it out. An administrator"
                " can allow it (option `accepts` of the provider).",
                param=path,
            )
        del fields[name]
        dropped.append(path)


def _chooses_nothing(path: str, raw: Raw) -> bool:
    if bytes(raw).strip() in _EMPTY_VALUES:
        return True
    field = FIELDS.get(path)
    return field is not None and Body(value=raw).value("value") in field.neutral_values
