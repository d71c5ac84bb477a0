"""Structured output: reads the constraint of a request in any dialect, and writes it in the fields that an engine obeys.

This package exports the types of constraints and plans, and the readers and writers of request fields. Conversions between formats are
in its modules; the output formats themselves are in providers/canonical/output_format.py.
"""

from providers.structured_output.constraint import Constraint, read_constraint
from providers.structured_output.constraint_plan import ConstraintPlan, ConstraintSupport, Enforcement, SupportByKind
from providers.structured_output.read_constraint_fields import CONSTRAINT_FIELDS, read_output_format
from providers.structured_output.write_constraint_fields import write_guided_fields, write_response_format, write_structured_outputs

__all__ = [
    "CONSTRAINT_FIELDS",
    "Constraint",
    "ConstraintPlan",
    "ConstraintSupport",
    "Enforcement",
    "SupportByKind",
    "read_constraint",
    "read_output_format",
    "write_guided_fields",
    "write_response_format",
    "write_structured_outputs",
]
