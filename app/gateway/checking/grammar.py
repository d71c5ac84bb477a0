"""Whether regexes, grammars and structural tags compile: in the words of llguidance, which several engines obey them with."""

import re
from typing import Any, NoReturn

import msgspec
from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from app.gateway.checking.faults import Fault, Heavy
from providers.errors import Unsupported
from providers.guided.grammars import grammar_language
from providers.guided.lark import gbnf_to_lark
from providers.guided.regexes import unrolled
from providers.guided.tags import read_tags

BYTES = LLTokenizer("byte")

_REGEX_ERROR = re.compile(r"^error: (.*)$", re.MULTILINE)
# What llguidance 1.9.1 says of bounds; its other messages quote the source, which may say anything.
_TOO_LARGE = re.compile(
    r"(schema|class) too large|too big \(limit|too many (expressions|states|items)|fuel (exhausted|exceeded)|regex exceeds size limit"
    r"|exceed the maximum number of nested",
    re.IGNORECASE,
)
_NO_ANSWER = "NoExtension"
_MOST_REPEATED = 65_536
_TEXT = re.compile(r'"(?:[^"\\\n]|\\.)*"')


def limits() -> LLParserLimits:
    return LLParserLimits(
        initial_lexer_fuel=1_000_000,
        step_max_items=50_000,
        max_lexer_states=100_000,
        max_grammar_size=500_000,
        precompute_large_lexemes=False,
        verbose_errors=False,
    )


def complaint(grammar: str) -> str:
    """What llguidance has against it; empty: nothing."""
    return LLMatcher.validate_grammar(grammar, BYTES, limits=limits())


def check_beginning(grammar: str) -> None:
    """Raises Fault for what no answer can begin with, as a rule that is itself: engines look for its end in vain."""
    matcher = LLMatcher(BYTES, grammar, log_level=0, limits=limits())
    if not matcher.is_error():
        matcher.compute_bitmask()
        if matcher.is_error() and _NO_ANSWER in matcher.get_error():
            raise Fault("no answer can obey it: it has no first character")


def is_too_large(told: str) -> bool:
    return _TOO_LARGE.search(told) is not None


def check_repetition(pattern: str) -> None:
    """llguidance counts; engines that write repetitions out, as automata or rules, are filled by them. Raises Fault."""
    size = unrolled(pattern) if "{" in pattern else 0
    if size > len(pattern) + _MOST_REPEATED:
        raise Fault(f"with its repetitions written out it has {size} parts, and {_MOST_REPEATED} are what engines can hold")


def regex_grammar(pattern: str) -> str:
    return LLMatcher.grammar_from_regex(pattern)


def check_regex(pattern: str) -> None:
    """What llguidance refuses here (look-around, back-references, word boundaries) no engine of those that obey regexes can do."""
    check_repetition(pattern)
    grammar = regex_grammar(pattern)
    told = complaint(grammar)
    if told:
        _refuse(told, _of_regex(told))
    check_beginning(grammar)


def text_grammar(text: str) -> str:
    if grammar_language(text) == "lark":
        return LLMatcher.grammar_from_lark(text)
    try:
        return LLMatcher.grammar_from_lark(gbnf_to_lark(text))
    except Unsupported as reason:
        raise Fault(reason.message) from None


def check_grammar(text: str) -> None:
    grammar = text_grammar(text)
    check_repetition(_TEXT.sub("a", text))
    told = complaint(grammar)
    if told:
        _refuse(told, _first_line(told))
    check_beginning(grammar)


def tag_grammar(source: str) -> str | None:
    """None: a tag of a kind that is not known here. Raises Fault for one that is wrong."""
    try:
        tag = msgspec.json.decode(source)
    except msgspec.DecodeError as fault:
        raise Fault(f"it is not JSON: {fault}") from None
    except RecursionError:
        raise Fault("it is nested too deeply") from None
    if not isinstance(tag, dict):
        raise Fault("a structural tag is an object")
    if not isinstance(tag.get("format"), dict) and not (isinstance(tag.get("structures"), list) and isinstance(tag.get("triggers"), list)):  # pyright: ignore[reportUnknownMemberType]
        raise Fault("a structural tag has either a `format`, or `structures` and `triggers`")
    told: dict[str, Any] = {key: value for key, value in tag.items() if key != "type"}  # pyright: ignore[reportUnknownVariableType]
    try:
        return LLMatcher.grammar_from_lark(read_tags(told, spaced=True).lark)
    except msgspec.ValidationError as fault:
        if "Invalid value" in str(fault):
            return None
        raise Fault(str(fault)) from None
    except RecursionError:
        raise Fault("it is nested too deeply") from None
    except ValueError as fault:
        # Of text that cannot be told from what follows our grammar knows nothing; an engine's may.
        if "trigger begins" in str(fault):
            raise Fault(str(fault)) from None
        return None


def check_tag(source: str) -> None:
    """As a whole; its schemas and regexes are looked at one by one before."""
    grammar = tag_grammar(source)
    told = complaint(grammar) if grammar is not None else ""
    if is_too_large(told):
        raise Heavy(told)


def _refuse(told: str, said: str) -> NoReturn:
    if is_too_large(told):
        raise Heavy(said)
    raise Fault(said)


def _of_regex(told: str) -> str:
    found = _REGEX_ERROR.search(told)
    return found[1] if found else _first_line(told.rpartition("(in regex): ")[2])


def _first_line(told: str) -> str:
    return told.strip().partition("\n")[0]
