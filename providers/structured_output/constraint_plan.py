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
    """How an engine supports one kind of output format."""

    enforcement: Enforcement
    write: Callable[[OutputFormat], Mapping[str, Any]]  # gives the request fields for it; raises Unsupported
    keeps_response_format: bool = False  # whether a caller's own OpenAI response_format is sent as it is
    is_json_string: bool = False  # whether the engine returns the answer as a JSON string


SupportByKind = Mapping[OutputKind, ConstraintSupport]


class ConstraintPlan(Struct, frozen=True):
    """How a constraint is kept at one target."""

    enforcement: Enforcement
    output: OutputFormat
    fields: Mapping[str, Any] | None = None  # the request fields that replace the caller's constraint fields; None: those stay as they are
    is_json_string: bool = False
    is_instructed: bool = False  # whether the prompt alone demands it, so that the model may write its answer in a Markdown code block

    @property
    def rewrites_text(self) -> bool:
        """Whether the caller gets another text than the engine wrote."""
        return self.is_json_string or self.is_instructed
