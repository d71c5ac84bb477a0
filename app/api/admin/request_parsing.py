"""What admin routes are sent: bodies and parameters, where a slip in a name is an error that names it."""

from typing import Any, TypeVar

import msgspec
from litestar import Request

from providers.canonical.errors import InvalidRequest

T = TypeVar("T")


def parse_body(raw: bytes, kind: type[T]) -> T:
    """The body, in JSON. Raises Malformed with the place of the fault."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as fault:
        problem, _, path = str(fault).partition(" - at `$")
        field_path = path.rstrip("`").removeprefix(".")
        raise InvalidRequest(f"{problem} at `{field_path}`." if field_path else f"{problem}.", param=field_path or None) from None
    except msgspec.DecodeError as fault:
        raise InvalidRequest(f"The body is not JSON: {fault}.") from None


def reject_unknown_parameters(request: Request[Any, Any, Any], known: tuple[str, ...]) -> None:
    for name in request.query_params:
        if name not in known:
            raise InvalidRequest(f"There is no parameter {name!r:.60}: {', '.join(known) or 'none'} are known.", param=name[:60])
