"""Constraint plans: how an engine is asked to obey a constraint, and what is checked in its response."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

from providers.canonical.output_format import OutputFormat, OutputKind

Enforcement = Literal["enforced", "converted", "validated"]
"""How a constraint is kept, as callers see it in `x-narthex-guided`.

enforced: the engine enforces it. converted: the engine enforces an equivalent constraint. validated: the gateway checks the response
before the caller gets it.
"""


class ConstraintSupport(Struct, frozen=True):
    """How an engine supports one kind of output format.

    `write`: the request fields for it; raises Unsupported. `keeps_response_format`: a caller's own OpenAI response_format is sent as it is.
    `is_json_string`: the engine returns the answer as a JSON string.
    """

    enforcement: Enforcement
    write: Callable[[OutputFormat], Mapping[str, Any]]
    keeps_response_format: bool = False
    is_json_string: bool = False


SupportByKind = Mapping[OutputKind, ConstraintSupport]


class ConstraintPlan(Struct, frozen=True):
    """`fields`: the request fields that replace the caller's constraint fields; None: those stay as they are.

    `is_instructed`: the prompt alone demands it, so that the model may write its answer in a Markdown code block.
    """

    enforcement: Enforcement
    output: OutputFormat
    fields: Mapping[str, Any] | None = None
    is_json_string: bool = False
    is_instructed: bool = False

    @property
    def rewrites_text(self) -> bool:
        """Whether the caller gets another text than the engine wrote."""
        return self.is_json_string or self.is_instructed
