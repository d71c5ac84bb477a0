"""How a constraint is asked of an engine, and what is done with its reply."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

from providers.guided.output import Kind, Output

How = Literal["enforced", "converted", "validated"]
"""As callers are told (x-narthex-guided). enforced: the engine obeys it. converted: it obeys the same, said otherwise. validated: the

gateway has looked at the reply before its caller did.
"""


class Way(Struct, frozen=True):
    """How an engine is asked for one kind of output.

    `write`: the fields that say it; raises Unsupported where it cannot be said. `plain`: a caller's own response_format is left as it is.
    `quoted`: the engine gives the answer as a JSON string.
    """

    how: How
    write: Callable[[Output], Mapping[str, Any]]
    plain: bool = False
    quoted: bool = False


Ways = Mapping[Kind, Way]


class Guiding(Struct, frozen=True):
    """`fields`: what takes the place of the caller's words; None: they stay as they are."""

    how: How
    output: Output
    fields: Mapping[str, Any] | None = None
    quoted: bool = False
