"""The cells of an invoice's lines: texts, counts, amounts in dollars and days, checked as they are taken."""

import datetime
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation

_MAX_CELL = 1_000_000_000_000


class InvoiceError(ValueError):
    """The file is not an export of this format, or says something impossible. The message names the line."""


Row = Mapping[str, str]


def first_cell(row: Row, *names: str) -> str:
    return next((text for name in names if (text := row.get(name, "").strip())), "")


def text_cell(row: Row, *names: str) -> str:
    text = first_cell(row, *names)
    if not text:
        raise InvoiceError(f"{' or '.join(names)} is empty.")
    return text


def count_cell(row: Row, *names: str) -> int:
    text = first_cell(row, *names)
    if not text:
        return 0
    number = _decimal(text, names[0])
    if number != number.to_integral_value() or not 0 <= number <= _MAX_CELL:
        raise InvoiceError(f"{names[0]} is not a number of tokens: {text!r:.60}.")
    return int(number)


def dollars_cell(row: Row, *names: str) -> Decimal:
    text = first_cell(row, *names)
    number = _decimal(text or "0", names[0])
    if abs(number) > _MAX_CELL:
        raise InvoiceError(f"{names[0]} is too large: {text!r:.60}.")
    return number


def _decimal(text: str, name: str) -> Decimal:
    try:
        number = Decimal(text.replace("$", "").replace(",", ""))
    except InvalidOperation:
        number = Decimal("nan")
    if not number.is_finite():
        raise InvoiceError(f"{name} is not a number: {text!r:.60}.")
    return number


def day_cell(row: Row, *names: str) -> datetime.date:
    """The UTC day of a time: Unix seconds, or ISO 8601, of which one without a zone is UTC."""
    text = text_cell(row, *names)
    try:
        if text.isdigit():
            return datetime.datetime.fromtimestamp(int(text), datetime.UTC).date()
        moment = datetime.datetime.fromisoformat(text.removesuffix(" UTC").replace("Z", "+00:00"))
    except (ValueError, OverflowError, OSError):
        raise InvoiceError(f"{names[0]} is not a time: {text!r:.60}.") from None
    return (moment if moment.tzinfo is None else moment.astimezone(datetime.UTC)).date()


def check_currency(row: Row) -> None:
    currency = first_cell(row, "amount_currency", "currency", "line_item_currency_code")
    if currency and currency.lower() != "usd":
        raise InvoiceError(f"Amounts are in {currency:.10}; only US dollars can be compared.")
