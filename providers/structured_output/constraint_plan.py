"""How a constraint is asked of an engine, and what is done with its reply."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

from providers.canonical.output_format import OutputFormat, OutputKind

Enforcement = Literal["enforced", "converted", "validated"]
"""As callers are told (x-narthex-guided). enforced: the engine obeys it. converted: it obeys the same, said otherwise. validated: the

gateway has looked at the reply before its caller did.
"""


class ConstraintSupport(Struct, frozen=True):
    """How an engine is asked for one kind of output.

    `write`: the fields that say it; raises Unsupported where it cannot be said. `plain`: a caller's own response_format is left as it is.
    `quoted`: the engine gives the answer as a JSON string.
    """

    enforcement: Enforcement
    write: Callable[[OutputFormat], Mapping[str, Any]]
    keeps_response_format: bool = False
    is_json_string: bool = False


SupportByKind = Mapping[OutputKind, ConstraintSupport]


class ConstraintPlan(Struct, frozen=True):
    """`fields`: what takes the place of the caller's words; None: they stay as they are."""

    enforcement: Enforcement
    output: OutputFormat
    fields: Mapping[str, Any] | None = None
    is_json_string: bool = False
