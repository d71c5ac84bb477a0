"""Guided decoding: what shape an answer must have, read from the words that callers use and written in those that engines obey."""

from providers.guided.constraint import PLACES, Constraint, read_constraint
from providers.guided.gbnf import choice_to_gbnf, regex_to_gbnf
from providers.guided.grammars import grammar_language
from providers.guided.guiding import Guiding, How, Way, Ways
from providers.guided.output import Choice, Grammar, JsonObject, JsonSchema, Kind, Output, Regex, StructuralTag, kind_of
from providers.guided.reading import WORDS, read_output
from providers.guided.regexes import anchored, choice_to_regex, unrolled
from providers.guided.schemas import schema_to_regex
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
    "anchored",
    "as_guided_fields",
    "as_response_format",
    "as_structured_outputs",
    "choice_to_gbnf",
    "choice_to_regex",
    "grammar_language",
    "kind_of",
    "read_constraint",
    "read_output",
    "regex_to_gbnf",
    "schema_to_regex",
    "titled",
    "unrolled",
]
