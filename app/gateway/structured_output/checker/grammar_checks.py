"""Checks of regexes, grammars and structural tags: whether llguidance, by which several engines enforce them, compiles them."""

import re
from typing import Any, NoReturn

import msgspec
from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from app.gateway.structured_output.checker.errors import CheckFailed, CheckTooExpensive
from providers.canonical.errors import Unsupported
from providers.structured_output.gbnf_to_lark import gbnf_to_lark
from providers.structured_output.grammar_language import detect_grammar_language
from providers.structured_output.regexes import unrolled_size
from providers.structured_output.structural_tags import tags_to_lark

BYTE_TOKENIZER = LLTokenizer("byte")

_REGEX_ERROR = re.compile(r"^error: (.*)$", re.MULTILINE)
# Messages of llguidance 1.9.1 about limits. Its other messages quote the source, which may hold any text.
_TOO_LARGE = re.compile(
    r"(schema|class) too large|too big \(limit|too many (expressions|states|items)|fuel (exhausted|exceeded)|regex exceeds size limit"
    r"|exceed the maximum number of nested",
    re.IGNORECASE,
)
_NO_FIRST_TOKEN = "NoExtension"
_MAX_REPETITIONS = 65_536
_STRING_LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"')


def parser_limits() -> LLParserLimits:
    return LLParserLimits(
        initial_lexer_fuel=1_000_000,
        step_max_items=50_000,
        max_lexer_states=100_000,
        max_grammar_size=500_000,
        precompute_large_lexemes=False,
        verbose_errors=False,
    )


def grammar_error(grammar: str) -> str:
    """llguidance's error message; "" if there is no error."""
    return LLMatcher.validate_grammar(grammar, BYTE_TOKENIZER, limits=parser_limits())


def check_first_character(grammar: str) -> None:
    """Raises CheckFailed if no text can begin to match, as with a rule that is only itself: engines would loop on it."""
    matcher = LLMatcher(BYTE_TOKENIZER, grammar, log_level=0, limits=parser_limits())
    if not matcher.is_error():
        matcher.compute_bitmask()
        if matcher.is_error() and _NO_FIRST_TOKEN in matcher.get_error():
            raise CheckFailed("no text can match it: it has no first character")


def is_too_large(error_text: str) -> bool:
    return _TOO_LARGE.search(error_text) is not None


def check_repetition(pattern: str) -> None:
    """Raises CheckFailed for huge repetitions: llguidance counts them, but other engines expand them into automata or rules."""
    size = unrolled_size(pattern) if "{" in pattern else 0
    if size > len(pattern) + _MAX_REPETITIONS:
        raise CheckFailed(f"with its repetitions expanded it has {size} parts, and engines can hold {_MAX_REPETITIONS}")


def regex_grammar(pattern: str) -> str:
    return LLMatcher.grammar_from_regex(pattern)


def check_regex(pattern: str) -> None:
    """Raises CheckFailed or CheckTooExpensive for a regex that cannot be enforced.

    No engine that enforces regexes supports what llguidance refuses here: look-around, back-references, word
    boundaries.
    """
    check_repetition(pattern)
    grammar = regex_grammar(pattern)
    error_text = grammar_error(grammar)
    if error_text:
        _raise_grammar_error(error_text, _regex_error_message(error_text))
    check_first_character(grammar)


def text_grammar(text: str) -> str:
    if detect_grammar_language(text) == "lark":
        return LLMatcher.grammar_from_lark(text)
    try:
        return LLMatcher.grammar_from_lark(gbnf_to_lark(text))
    except Unsupported as reason:
        raise CheckFailed(reason.message) from None


def check_grammar(text: str) -> None:
    grammar = text_grammar(text)
    check_repetition(_STRING_LITERAL.sub("a", text))
    error_text = grammar_error(grammar)
    if error_text:
        _raise_grammar_error(error_text, _first_line(error_text))
    check_first_character(grammar)


def tag_grammar(source: str) -> str | None:
    """The tag as a Lark grammar; None: a kind of tag that is not known here. Raises CheckFailed for an invalid tag."""
    try:
        tag = msgspec.json.decode(source)
    except msgspec.DecodeError as fault:
        raise CheckFailed(f"it is not JSON: {fault}") from None
    except RecursionError:
        raise CheckFailed("it is nested too deeply") from None
    if not isinstance(tag, dict):
        raise CheckFailed("a structural tag is an object")
    if not isinstance(tag.get("format"), dict) and not (isinstance(tag.get("structures"), list) and isinstance(tag.get("triggers"), list)):  # pyright: ignore[reportUnknownMemberType]
        raise CheckFailed("a structural tag has either a `format`, or `structures` and `triggers`")
    tag_fields: dict[str, Any] = {key: value for key, value in tag.items() if key != "type"}  # pyright: ignore[reportUnknownVariableType]
    try:
        return LLMatcher.grammar_from_lark(tags_to_lark(tag_fields, allows_whitespace=True).lark)
    except msgspec.ValidationError as fault:
        if "Invalid value" in str(fault):
            return None
        raise CheckFailed(str(fault)) from None
    except RecursionError:
        raise CheckFailed("it is nested too deeply") from None
    except ValueError as fault:
        # Free text that is ambiguous with what follows it: our grammar cannot express that, an engine's may.
        if "trigger begins" in str(fault):
            raise CheckFailed(str(fault)) from None
        return None


def check_tag(source: str) -> None:
    """Checks the tag itself; its schemas and regexes are checked one by one before."""
    grammar = tag_grammar(source)
    error_text = grammar_error(grammar) if grammar is not None else ""
    if is_too_large(error_text):
        raise CheckTooExpensive(error_text)


def _raise_grammar_error(error_text: str, message: str) -> NoReturn:
    if is_too_large(error_text):
        raise CheckTooExpensive(message)
    raise CheckFailed(message)


def _regex_error_message(error_text: str) -> str:
    found = _REGEX_ERROR.search(error_text)
    return found[1] if found else _first_line(error_text.rpartition("(in regex): ")[2])


def _first_line(error_text: str) -> str:
    return error_text.strip().partition("\n")[0]
