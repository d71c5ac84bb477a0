"""Guided decoding: what shape an answer must have, read from the words that callers use and written in those that engines obey."""

from providers.guided.constraint import PLACES, Constraint, read_constraint
from providers.guided.guiding import Guiding, How, Way, Ways
from providers.guided.output import Choice, Grammar, JsonObject, JsonSchema, Kind, Output, Regex, StructuralTag, kind_of
from providers.guided.reading import WORDS, read_output
from providers.guided.words import as_guided_fields, as_response_format, as_structured_outputs, titled

__all__ = [
    "PLACES",
    "WORDS",
    "Choice",
    "Constraint",
    "Grammar",
    "Guiding",
    "How",
    "JsonObject",
    "JsonSchema",
    "Kind",
    "Output",
    "Regex",
    "StructuralTag",
    "Way",
    "Ways",
    "as_guided_fields",
    "as_response_format",
    "as_structured_outputs",
    "kind_of",
    "read_constraint",
    "read_output",
    "titled",
]
