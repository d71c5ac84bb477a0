"""CSV that a spreadsheet reads without running what is in it."""

import csv
import io
from collections.abc import Iterable
from typing import Any

import msgspec

# A cell that begins so is a formula to spreadsheets: https://owasp.org/www-community/attacks/CSV_Injection, read 2026-11.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def csv_cell(value: Any) -> str:
    """Objects and lists as JSON; None is empty."""
    if value is None:
        return ""
    if isinstance(value, int | float):
        return str(value)
    text = msgspec.json.encode(value).decode() if isinstance(value, dict | list) else str(value)
    return "'" + text if text.startswith(_FORMULA_STARTS) else text


def csv_lines(rows: Iterable[Iterable[str]]) -> bytes:
    lines = io.StringIO()
    csv.writer(lines).writerows(rows)  # lines end with CR LF, as RFC 4180 has them
    return lines.getvalue().encode()
