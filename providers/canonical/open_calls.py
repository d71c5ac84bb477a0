"""Tool calls and their results, put in order: every API wants one result for each call of a history, right after it, and no others.

Users interrupt agents, frameworks cut histories and other gateways reorder them; hosts and some engines' templates then answer 400: "An
assistant message with 'tool_calls' must be followed by tool messages", "tool_use ids were found without tool_result blocks immediately
after" (recording anthropic/error-400-tool-use-without-result), "Not the same number of function calls and responses", "messages with role
'tool' must be a response to a preceding message with 'tool_calls'". So a call without a result gets one that says so, a result that
comes later is moved to its call, and a result without a call becomes text of the user. Each is reported by its path.
"""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

MISSING_RESULT = "This call has no result: it was interrupted, or its result was left out."


def lost_call_text(call_id: str | None) -> str:
    """Returns the line above a result whose call is not in the conversation, in the user's text that the result becomes."""
    return f"Result of tool call {call_id:.100}, which is no longer part of this conversation:"


class Repair(Struct):
    """The record of how a history was put in order."""

    # The caller's paths of what was put in order.
    paths: Sequence[str]
    # The caller's index of each entry of the repaired history.
    indexes: Sequence[int]
    # The caller's path of each part, by the place of the entry, for entries whose content has other parts now.
    part_paths: Mapping[int, Sequence[str]] = {}

    def original_path(self, path: str) -> str:
        """The caller's path of what is at `path` in the repaired history."""
        matched = _ENTRY_PATH.match(path)
        if matched is None or (index := int(matched["entry"])) >= len(self.indexes):
            return path
        parts = self.part_paths.get(index, ())
        if matched["part"] is not None and (part := int(matched["part"])) < len(parts):
            return parts[part] + path[matched.end() :]
        return f"{matched['list']}[{self.indexes[index]}]{path[matched.end('entry') + 1 :]}"


_ENTRY_PATH = re.compile(r"(?P<list>messages|input)\[(?P<entry>\d+)\](?:\.content\[(?P<part>\d+)\])?")


class Entry(Struct):
    """A message, or an item of one. `calls`: ids of the calls in it, with their paths. `result`: the id of the call that it answers."""

    path: str
    calls: Sequence[tuple[str, str]] = ()
    result: str | None = None
    from_assistant: bool = False


class Missing(Struct):
    """The place at which a result of this call has to be."""

    call_id: str
    # The index of the entry with the call.
    index: int


class LostCall(Struct):
    """A result whose call is not in the history."""

    index: int  # of its entry


class _Run(Struct):
    """Calls of one run of the assistant's entries."""

    missing: dict[str, tuple[int, str]]  # the entry's index and the path of each call without a result
    results: list[int]


def arrange(entries: Sequence[Entry], *, joins_entries: bool) -> tuple[list[int | Missing | LostCall], list[str]] | None:
    """The entries in an order in which results follow their calls, and the paths that are reported. None: they are in order.

    Calls at the very end are left alone: nobody went on after them, so what the caller wants is not known. `joins_entries` says whether
    results may wait until the neighbouring entries of the assistant end, as items of Responses do.
    """
    order: list[int | LostCall | _Run] = []
    runs: dict[str, _Run] = {}
    reported: list[str] = []
    pending: _Run | None = None
    for index, entry in enumerate(entries):
        if pending is not None and (entry.result is not None or not entry.from_assistant):
            order.append(pending)
            pending = None
        if entry.result is not None:
            run = runs.get(entry.result)
            if run is None or run.missing.pop(entry.result, None) is None:
                order.append(LostCall(index))
                reported.append(entry.path)
                continue
            if order[-1] is not run:
                reported.append(entry.path)
            run.results.append(index)
            continue
        order.append(index)
        if not entry.calls:
            continue
        run = pending = pending or _Run({}, [])
        for call_id, path in entry.calls:
            if call_id in run.missing:
                return None  # which result belongs to which of two calls with one id is not known
            run.missing[call_id] = (index, path)
            runs[call_id] = run
        if not joins_entries and index + 1 < len(entries):
            order.append(run)
            pending = None
    arranged: list[int | Missing | LostCall] = []
    for each in order:
        if isinstance(each, _Run):
            arranged += each.results
            arranged += [Missing(call_id, index) for call_id, (index, _) in each.missing.items()]
            reported += [path for _, path in each.missing.values()]
        else:
            arranged.append(each)
    return (arranged, reported) if reported else None
