"""Bodies and query parameters of admin routes; an unknown name is an error that names it."""

from typing import Any, TypeVar

import msgspec
from litestar import Request

from app.api.admin.enum_choices import choices_at
from providers.canonical.errors import InvalidRequest

T = TypeVar("T")


def parse_admin_body(raw: bytes, body_type: type[T]) -> T:
    """Decode a JSON body. Raises InvalidRequest, which names the field at fault."""
    try:
        return msgspec.json.decode(raw, type=body_type)
    except msgspec.ValidationError as fault:
        problem, _, path = str(fault).partition(" - at `$")
        field_path = path.rstrip("`").removeprefix(".")
        choices = choices_at(body_type, f"${path.rstrip('`')}") if problem.startswith("Invalid enum value") else ()
        if choices:
            raise InvalidRequest(f"`{field_path}` may be {', '.join(choices)}.", param=field_path) from None
        raise InvalidRequest(f"{problem} at `{field_path}`." if field_path else f"{problem}.", param=field_path or None) from None
    except msgspec.DecodeError as fault:
        raise InvalidRequest(f"The body is not JSON: {fault}.") from None
    except RecursionError:
        raise InvalidRequest("The body is nested too deeply: no field of this route needs more than a few levels.") from None


def reject_unknown_parameters(request: Request[Any, Any, Any], known: tuple[str, ...]) -> None:
    """Raises InvalidRequest: a filter with a mistyped name, or without a value, must not show everything."""
    for name, value in request.query_params.items():
        if name not in known:
            names = f"The parameters are: {', '.join(known)}." if known else "There are no parameters here."
            raise InvalidRequest(f"Unknown parameter {name!r:.60}. {names}", param=name[:60])
        if not value:
            raise InvalidRequest(f"`{name}` is empty: give it a value, or leave it out.", param=name)
