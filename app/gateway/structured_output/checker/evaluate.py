"""Looking at a constraint, or at a reply to one. Takes time and memory, for hostile sources without bound: run where both are bounded."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jsonschema_rs
import msgspec
from llguidance import LLMatcher

from app.gateway.structured_output.checker.errors import CheckFailed, CheckTooExpensive
from app.gateway.structured_output.checker.grammar_checks import (
    BYTE_TOKENIZER,
    check_grammar,
    check_regex,
    check_tag,
    parser_limits,
    regex_grammar,
    tag_grammar,
    text_grammar,
)
from app.gateway.structured_output.checker.protocol import CheckOrder, CheckTask, Verdict
from app.gateway.structured_output.checker.schema_checks import build_validator, check_schema, read_schema
from providers.structured_output import OutputKind
from providers.structured_output.grammar_coverage import is_schema_covered

_MAX_MESSAGE_CHARS = 400


def evaluate(check_order: CheckOrder) -> Verdict:
    unenforced: list[int] = []
    for task_index, task in enumerate(check_order.tasks):
        try:
            if task.response_text is None:
                check_constraint(task)
                if _is_unenforced(task):
                    unenforced.append(task_index)
            else:
                check_response(task, task.response_text)
        except CheckFailed as fault:
            return Verdict("faulty", _shorten(fault.message), task_index, fault.path)
        except CheckTooExpensive as fault:
            return Verdict("heavy", _shorten(str(fault)), task_index)
        except MemoryError:
            return Verdict("heavy", "memory", task_index)
        except RecursionError:
            return Verdict("heavy", "depth", task_index)
    return Verdict("fits", unenforced=tuple(unenforced))


def check_constraint(task: CheckTask) -> None:
    """Raises Fault for what nothing could obey, Heavy for what is too much to look at."""
    match task.kind:
        case "json_schema":
            check_schema(task.source)
        case "regex":
            check_regex(task.source)
        case "grammar":
            check_grammar(task.source)
        case "structural_tag":
            tag_grammar(task.source)
            for path, kind, source in _nested_constraints(msgspec.json.decode(task.source)):
                try:
                    _CHECKS[kind](source)
                except CheckFailed as fault:
                    raise CheckFailed(fault.message, (*path, *fault.path)) from None
            check_tag(task.source)
        case "json_object" | "choice":
            pass


def _is_unenforced(task: CheckTask) -> bool:
    match task.kind:
        case "json_schema":
            return not is_schema_covered(msgspec.json.decode(task.source))
        case "structural_tag":
            nested = _nested_constraints(msgspec.json.decode(task.source))
            return any(kind == "json_schema" and not is_schema_covered(msgspec.json.decode(source)) for _, kind, source in nested)
        case _:
            return False


_CHECKS: Mapping[str, Callable[[str], None]] = {"json_schema": check_schema, "regex": check_regex}


def _nested_constraints(tag: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    """The schemas and the regexes of a structural tag, each with its place."""
    if isinstance(tag, list):
        for index, each in enumerate(tag):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            yield from _nested_constraints(each, (*path, index))
        return
    match tag:
        case {"type": "json_schema", "json_schema": schema}:
            yield (*path, "json_schema"), "json_schema", msgspec.json.encode(schema).decode()
        case {"type": "regex", "pattern": str(pattern)}:
            yield (*path, "pattern"), "regex", pattern
        case {"begin": _, "schema": schema}:
            yield (*path, "schema"), "json_schema", msgspec.json.encode(schema).decode()
        case {**rest}:
            for key, value in rest.items():
                if isinstance(value, dict | list):
                    yield from _nested_constraints(value, (*path, str(key)))
        case _:
            pass


def check_response(task: CheckTask, text: str) -> None:
    """Raises Fault for a reply that does not obey, or of which that cannot be told."""
    match task.kind:
        case "json_object" | "json_schema":
            _check_json(task, text)
        case "choice":
            options = msgspec.json.decode(task.source, type=list[str])
            if not (text in options if task.is_complete else any(option.startswith(text) for option in options)):
                raise CheckFailed("it is none of the choices")
        case _:
            grammar = _grammar_for(task.kind, task.source)
            if grammar is None:
                raise CheckFailed("what it says cannot be told here: this kind of tag is not known")
            _match_grammar(grammar, text, is_complete=task.is_complete)


def _grammar_for(kind: OutputKind, source: str) -> str | None:
    match kind:
        case "regex":
            return regex_grammar(source)
        case "grammar":
            return text_grammar(source)
        case _:
            return tag_grammar(source)


def _check_json(task: CheckTask, text: str) -> None:
    """A reply that was cut off is to be the beginning of some JSON: properties may come in any order, which no grammar follows."""
    try:
        value = msgspec.json.decode(text)
    except RecursionError:
        raise CheckFailed("it is nested too deeply to be looked at") from None
    except msgspec.DecodeError as fault:
        if task.is_complete:
            raise CheckFailed(f"it is not JSON: {fault}") from None
        anything = '{"type": "object"}' if task.kind == "json_object" else "{}"
        _match_grammar(LLMatcher.grammar_from_json_schema(anything), text.lstrip(" \t\r\n"), is_complete=False)
        return
    if not task.is_complete and isinstance(value, int | float):
        return  # of which more digits may have followed
    if task.kind == "json_object":
        if not isinstance(value, dict):
            raise CheckFailed("it is JSON, but no object")
        return
    try:
        build_validator(read_schema(task.source)).validate(value)
    except jsonschema_rs.ValidationError as fault:
        location = "".join(f"[{step!r}]" for step in fault.instance_path)
        raise CheckFailed(f"{fault.message}{' at ' + location if location else ''}") from None


def _match_grammar(grammar: str, text: str, *, is_complete: bool) -> None:
    matcher = LLMatcher(BYTE_TOKENIZER, grammar, log_level=0, limits=parser_limits())
    encoded = text.encode()
    consumed = matcher.try_consume_tokens(list(encoded)) if not matcher.is_error() else 0
    if matcher.is_error():
        raise CheckFailed(f"whether it does cannot be told here: {_shorten(matcher.get_error())}")
    if consumed < len(encoded):
        raise CheckFailed(f"it leaves the constraint at byte {consumed}: {encoded[consumed : consumed + 20].decode(errors='replace')!r}")
    if is_complete and not matcher.is_accepting():
        raise CheckFailed("it ends too early")


def _shorten(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= _MAX_MESSAGE_CHARS else line[:_MAX_MESSAGE_CHARS] + " ..."
