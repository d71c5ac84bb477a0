"""Parameters of a query string: a filter with a mistyped name must not show everything."""

from collections.abc import Collection
from urllib.parse import parse_qsl

from providers.canonical.errors import InvalidRequest


def read_parameters(raw: bytes, known: list[str] | tuple[str, ...] | None) -> dict[str, str]:
    """The parameters by name. Raises InvalidRequest for unknown, empty and repeated ones. Where `known` is None, any name is known."""
    return {name: values[0] for name, values in read_repeated_parameters(raw, known, ()).items()}


def read_repeated_parameters(raw: bytes, known: list[str] | tuple[str, ...] | None, repeatable: Collection[str]) -> dict[str, list[str]]:
    """The values of each parameter. Raises InvalidRequest as read_parameters() does, but takes several values of the repeatable ones."""
    found: dict[str, list[str]] = {}
    for name, value in parse_qsl(raw.decode("latin-1"), keep_blank_values=True, errors="strict"):
        check_parameter(name, value, known)
        if name in found and name not in repeatable:
            raise InvalidRequest(f"`{name}` appears several times; give it once.", param=name)
        found.setdefault(name, []).append(value)
    return found


def check_parameter(name: str, value: str, known: list[str] | tuple[str, ...] | None) -> None:
    """Raises InvalidRequest for an unknown parameter and for an empty or unusable value. Where `known` is None, any name is known."""
    if known is not None and name not in known:
        names = f"The parameters are: {', '.join(known)}." if known else "There are no parameters here."
        raise InvalidRequest(f"Unknown parameter {name!r:.60}. {names}", param=name[:60])
    if not value:
        raise InvalidRequest(f"`{name}` is empty: give it a value, or leave it out.", param=name)
    if "\0" in value:
        raise InvalidRequest(f"`{name}` must not contain a NUL character.", param=name)
