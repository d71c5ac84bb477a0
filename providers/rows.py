"""Rows: hosts that speak plain OpenAI, told as data in rows.toml, each value with its evidence."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import httpx
import msgspec
from msgspec import Struct

from providers.guided import Kind
from providers.hosted.rules import Rules
from providers.provider import PATHS

_NAME = re.compile(r"[a-z][a-z0-9_]*")


class BadRow(ValueError):
    """A row that cannot be meant; the message names it."""


class Row(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`takes`: of the fields that are refused or dropped of all hosts, those that this one has. `refuses`: more that it does not have.

    `guided`: kinds of output that it can be asked for. "strict": it holds to schemas that are asked for as strict, others are looked at.
    `asks_usage`: its streams tell usage where they are asked to by stream_options. The rest as in providers/provider.py.
    """

    title: str
    base_url: str
    dialects: tuple[str, ...]
    takes: frozenset[str] = frozenset()
    refuses: frozenset[str] = frozenset()
    rename: Mapping[str, str] = {}
    guided: Mapping[Kind, Literal["enforced", "strict", "validated"]] = {}
    strict_tools: bool = True
    stops_after_calls: bool = False
    tells_allowance: bool = False
    asks_usage: bool = True
    rules: Rules = Rules()


def read_rows(raw: bytes) -> Mapping[str, Row]:
    """Raises BadRow."""
    try:
        rows = msgspec.toml.decode(raw, type=dict[str, Row])
    except msgspec.DecodeError as fault:
        raise BadRow(f"rows.toml: {fault}.") from None
    for name, row in rows.items():
        _check(name, row)
    return rows


def _check(name: str, row: Row) -> None:
    url = httpx.URL(row.base_url)
    wrong = {
        "its name is none": _NAME.fullmatch(name) is None,
        "`title` is empty": not row.title,
        "`base_url` is no https address": url.scheme != "https" or not url.host or bool(url.query) or row.base_url.endswith("/"),
        "`dialects` has one that is not known": not row.dialects or not PATHS.keys() >= set(row.dialects),
        "`dialects` has one twice": len(set(row.dialects)) != len(row.dialects),
        "`takes` and `refuses` have a field in common": not row.takes.isdisjoint(row.refuses),
        "`rename` has a field that is refused": not row.refuses.isdisjoint(row.rename),
        "`rules.tool_names` is no regex": not _is_regex(row.rules.tool_names),
        "`rules.ranges` has one without a value": any(least > most for least, most in row.rules.ranges.values()),
        "`rules` has a most that is less than 1": any(
            most is not None and most < 1 for most in (row.rules.most_stops, row.rules.most_tools)
        ),
    }
    for why, is_wrong in wrong.items():
        if is_wrong:
            raise BadRow(f"Row {name!r} of rows.toml: {why}.")


def _is_regex(pattern: str | None) -> bool:
    try:
        re.compile(pattern or "")
    except re.error:
        return False
    return True


ROWS = read_rows((Path(__file__).parent / "rows.toml").read_bytes())
