"""Bodies and query parameters of admin routes; an unknown name is an error that names it."""

from typing import Any, TypeVar

import msgspec
from litestar import Request

from providers.canonical.errors import InvalidRequest

T = TypeVar("T")


def parse_admin_body(raw: bytes, body_type: type[T]) -> T:
    """Decode a JSON body. Raises InvalidRequest, which names the field at fault."""
    try:
        return msgspec.json.decode(raw, type=body_type)
    except msgspec.ValidationError as fault:
        problem, _, path = str(fault).partition(" - at `$")
        field_path = path.rstrip("`").removeprefix(".")
        raise InvalidRequest(f"{problem} at `{field_path}`." if field_path else f"{problem}.", param=field_path or None) from None
    except msgspec.DecodeError as fault:
        raise InvalidRequest(f"The body is not JSON: {fault}.") from None


def reject_unknown_parameters(request: Request[Any, Any, Any], known: tuple[str, ...]) -> None:
    """Raises InvalidRequest: a filter with a mistyped name must not show everything."""
    for name in request.query_params:
        if name not in known:
            names = f"The parameters are: {', '.join(known)}." if known else "There are no parameters here."
            raise InvalidRequest(f"Unknown parameter {name!r:.60}. {names}", param=name[:60])
