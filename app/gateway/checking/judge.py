"""Looking at a constraint, or at a reply to one. Takes time and memory, for hostile sources without bound: run where both are bounded."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jsonschema_rs
import msgspec
from llguidance import LLMatcher

from app.gateway.checking.faults import Fault, Heavy
from app.gateway.checking.grammar import BYTES, check_grammar, check_regex, check_tag, limits, regex_grammar, tag_grammar, text_grammar
from app.gateway.checking.schema import check_schema, read_schema, validator
from app.gateway.checking.tasks import Order, Task, Verdict
from providers.guided import Kind
from providers.guided.heeded import is_heeded

_LONGEST_MESSAGE = 400


def judged(order: Order) -> Verdict:
    loose: list[int] = []
    for at, task in enumerate(order.tasks):
        try:
            if task.reply is None:
                check(task)
                if _is_loose(task):
                    loose.append(at)
            else:
                check_reply(task, task.reply)
        except Fault as fault:
            return Verdict("faulty", _short(fault.message), at, fault.path)
        except Heavy as fault:
            return Verdict("heavy", _short(str(fault)), at)
        except MemoryError:
            return Verdict("heavy", "memory", at)
        except RecursionError:
            return Verdict("heavy", "depth", at)
    return Verdict("fits", loose=tuple(loose))


def check(task: Task) -> None:
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
            for path, kind, source in _within(msgspec.json.decode(task.source)):
                try:
                    _CHECKS[kind](source)
                except Fault as fault:
                    raise Fault(fault.message, (*path, *fault.path)) from None
            check_tag(task.source)
        case "json_object" | "choice":
            pass


def _is_loose(task: Task) -> bool:
    match task.kind:
        case "json_schema":
            return not is_heeded(msgspec.json.decode(task.source))
        case "structural_tag":
            within = _within(msgspec.json.decode(task.source))
            return any(kind == "json_schema" and not is_heeded(msgspec.json.decode(source)) for _, kind, source in within)
        case _:
            return False


_CHECKS: Mapping[str, Callable[[str], None]] = {"json_schema": check_schema, "regex": check_regex}


def _within(tag: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    """The schemas and the regexes of a structural tag, each with its place."""
    if isinstance(tag, list):
        for at, each in enumerate(tag):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            yield from _within(each, (*path, at))
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
                    yield from _within(value, (*path, str(key)))
        case _:
            pass


def check_reply(task: Task, reply: str) -> None:
    """Raises Fault for a reply that does not obey, or of which that cannot be told."""
    match task.kind:
        case "json_object" | "json_schema":
            _check_json(task, reply)
        case "choice":
            options = msgspec.json.decode(task.source, type=list[str])
            if not (reply in options if task.whole else any(option.startswith(reply) for option in options)):
                raise Fault("it is none of the choices")
        case _:
            grammar = _grammar(task.kind, task.source)
            if grammar is None:
                raise Fault("what it says cannot be told here: this kind of tag is not known")
            _walk(grammar, reply, whole=task.whole)


def _grammar(kind: Kind, source: str) -> str | None:
    match kind:
        case "regex":
            return regex_grammar(source)
        case "grammar":
            return text_grammar(source)
        case _:
            return tag_grammar(source)


def _check_json(task: Task, reply: str) -> None:
    """A reply that was cut off is to be the beginning of some JSON: properties may come in any order, which no grammar follows."""
    try:
        value = msgspec.json.decode(reply)
    except RecursionError:
        raise Fault("it is nested too deeply to be looked at") from None
    except msgspec.DecodeError as fault:
        if task.whole:
            raise Fault(f"it is not JSON: {fault}") from None
        anything = '{"type": "object"}' if task.kind == "json_object" else "{}"
        _walk(LLMatcher.grammar_from_json_schema(anything), reply.lstrip(" \t\r\n"), whole=False)
        return
    if not task.whole and isinstance(value, int | float):
        return  # of which more digits may have followed
    if task.kind == "json_object":
        if not isinstance(value, dict):
            raise Fault("it is JSON, but no object")
        return
    try:
        validator(read_schema(task.source)).validate(value)
    except jsonschema_rs.ValidationError as fault:
        place = "".join(f"[{step!r}]" for step in fault.instance_path)
        raise Fault(f"{fault.message}{' at ' + place if place else ''}") from None


def _walk(grammar: str, reply: str, *, whole: bool) -> None:
    matcher = LLMatcher(BYTES, grammar, log_level=0, limits=limits())
    said = reply.encode()
    taken = matcher.try_consume_tokens(list(said)) if not matcher.is_error() else 0
    if matcher.is_error():
        raise Fault(f"whether it does cannot be told here: {_short(matcher.get_error())}")
    if taken < len(said):
        raise Fault(f"it leaves the constraint at byte {taken}: {said[taken : taken + 20].decode(errors='replace')!r}")
    if whole and not matcher.is_accepting():
        raise Fault("it ends too early")


def _short(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= _LONGEST_MESSAGE else line[:_LONGEST_MESSAGE] + " ..."
