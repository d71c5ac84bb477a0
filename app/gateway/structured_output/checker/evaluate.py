"""Evaluates check orders. A hostile source can take unbounded time and memory, so this runs only where both are limited (process.py)."""

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
from app.gateway.structured_output.checker.whitespace_regex import write_whitespace_regex
from providers.canonical.output_format import OutputKind
from providers.structured_output.grammar_coverage import is_schema_covered

_MAX_MESSAGE_CHARS = 400


def evaluate(check_order: CheckOrder) -> Verdict:
    """The verdict on all tasks: the first failure, else valid."""
    unenforced: list[int] = []
    whitespace_regexes: dict[int, str] = {}
    for task_index, task in enumerate(check_order.tasks):
        try:
            if task.response_text is None:
                check_constraint(task)
                if _is_unenforced(task):
                    unenforced.append(task_index)
                regex = None if task.whitespace is None else write_whitespace_regex(task.source, task.whitespace)
                if regex is not None:
                    whitespace_regexes[task_index] = regex
            else:
                check_response(task, task.response_text)
        except CheckFailed as fault:
            return Verdict("invalid", _shorten(fault.message), task_index, fault.path)
        except CheckTooExpensive as fault:
            return Verdict("too_expensive", _shorten(str(fault)), task_index)
        except MemoryError:
            return Verdict("too_expensive", "memory", task_index)
        except RecursionError:
            return Verdict("too_expensive", "depth", task_index)
    return Verdict("valid", unenforced=tuple(unenforced), whitespace_regexes=whitespace_regexes)


def check_constraint(task: CheckTask) -> None:
    """Raises CheckFailed for what nothing can satisfy, CheckTooExpensive for what exceeds the limits of engines."""
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
    """(path, kind, source) of each schema and regex in a structural tag."""
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
    """Raises CheckFailed for a response that violates the constraint, or for which that cannot be decided."""
    match task.kind:
        case "json_object" | "json_schema":
            _check_json(task, text)
        case "choice":
            options = msgspec.json.decode(task.source, type=list[str])
            if not (text in options if task.is_complete else any(option.startswith(text) for option in options)):
                raise CheckFailed("it is not one of the choices")
        case _:
            grammar = _grammar_for(task.kind, task.source)
            if grammar is None:
                raise CheckFailed("it cannot be checked: this kind of structural tag is not known")
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
    """A response that was cut off only has to begin some JSON: properties may come in any order, which no grammar expresses."""
    try:
        value = msgspec.json.decode(text)
    except RecursionError:
        raise CheckFailed("it is nested too deeply to be checked") from None
    except msgspec.DecodeError as fault:
        if task.is_complete:
            raise CheckFailed(f"it is not JSON: {fault}") from None
        anything = '{"type": "object"}' if task.kind == "json_object" else "{}"
        _match_grammar(LLMatcher.grammar_from_json_schema(anything), text.lstrip(" \t\r\n"), is_complete=False)
        return
    if not task.is_complete and isinstance(value, int | float):
        return  # more digits may have followed
    if task.kind == "json_object":
        if not isinstance(value, dict):
            raise CheckFailed("it is JSON, but not an object")
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
        raise CheckFailed(f"it cannot be checked: {_shorten(matcher.get_error())}")
    if consumed < len(encoded):
        raise CheckFailed(f"it leaves the constraint at byte {consumed}: {encoded[consumed : consumed + 20].decode(errors='replace')!r}")
    if is_complete and not matcher.is_accepting():
        raise CheckFailed("it ends too early")


def _shorten(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= _MAX_MESSAGE_CHARS else line[:_MAX_MESSAGE_CHARS] + " ..."
