"""What admin routes are sent: bodies and parameters, where a slip in a name is an error that names it."""

from typing import Any, TypeVar

import msgspec
from litestar import Request

from providers.errors import Malformed

T = TypeVar("T")


def read(raw: bytes, kind: type[T]) -> T:
    """The body, in JSON. Raises Malformed with the place of the fault."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as fault:
        what, _, path = str(fault).partition(" - at `$")
        place = path.rstrip("`").removeprefix(".")
        raise Malformed(f"{what} at `{place}`." if place else f"{what}.", param=place or None) from None
    except msgspec.DecodeError as fault:
        raise Malformed(f"The body is not JSON: {fault}.") from None


def only(request: Request[Any, Any, Any], known: tuple[str, ...]) -> None:
    for name in request.query_params:
        if name not in known:
            raise Malformed(f"There is no parameter {name!r:.60}: {', '.join(known) or 'none'} are known.", param=name[:60])
