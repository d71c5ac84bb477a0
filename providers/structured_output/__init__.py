"""Guided decoding: what shape an answer must have, read from the words that callers use and written in those that engines obey."""

from providers.canonical.output_format import (
    Choice,
    Grammar,
    JsonObject,
    JsonSchema,
    OutputFormat,
    OutputKind,
    Regex,
    StructuralTag,
    output_kind,
)
from providers.structured_output.constraint import CONSTRAINT_FIELDS_BY_DIALECT, Constraint, read_constraint
from providers.structured_output.constraint_plan import ConstraintPlan, ConstraintSupport, Enforcement, SupportByKind
from providers.structured_output.gbnf import choice_to_gbnf, regex_to_gbnf
from providers.structured_output.grammar_language import detect_grammar_language
from providers.structured_output.read_constraint_fields import CONSTRAINT_FIELDS, read_output_format
from providers.structured_output.regexes import anchor_regex, choice_to_regex, unrolled_size
from providers.structured_output.schema_regex import schema_to_regex
from providers.structured_output.write_constraint_fields import (
    display_name,
    write_guided_fields,
    write_response_format,
    write_structured_outputs,
)

__all__ = [
    "CONSTRAINT_FIELDS",
    "CONSTRAINT_FIELDS_BY_DIALECT",
    "Choice",
    "Constraint",
    "ConstraintPlan",
    "ConstraintSupport",
    "Enforcement",
    "Grammar",
    "JsonObject",
    "JsonSchema",
    "OutputFormat",
    "OutputKind",
    "Regex",
    "StructuralTag",
    "SupportByKind",
    "anchor_regex",
    "choice_to_gbnf",
    "choice_to_regex",
    "detect_grammar_language",
    "display_name",
    "output_kind",
    "read_constraint",
    "read_output_format",
    "regex_to_gbnf",
    "schema_to_regex",
    "unrolled_size",
    "write_guided_fields",
    "write_response_format",
    "write_structured_outputs",
]
