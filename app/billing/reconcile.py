"""Recorded costs beside those of a provider's invoice: by UTC day, model and kind of token."""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal

from msgspec import Struct
from sqlalchemy.ext.asyncio import AsyncConnection

from app.billing.cost_lines import USE, CostLine, walk_cost_lines
from app.billing.invoice_cells import InvoiceError
from app.billing.invoices import ALL, OTHER, InvoiceFormat, InvoiceLine, read_invoice
from app.billing.price_list import candidate_names
from app.domain.snapshot import Snapshot

MAX_DAYS = 93
MAX_LINES = 50_000
_MICROUSD = Decimal(1_000_000)

_Key = tuple[datetime.date, str, str]


class ReconciledLine(Struct, frozen=True):
    """Differences are ours less theirs. Null: the invoice does not say, or (of ours) the cost is unknown."""

    day: str
    model: str
    kind: str
    our_tokens: int | None
    their_tokens: int | None
    token_difference: int | None
    our_microusd: int | None
    their_microusd: int | None
    microusd_difference: int | None


class Reconciliation(Struct, frozen=True):
    """An invoice beside what was recorded. `providers`: by their configured names, whose records are compared. `unpriced`: requests of
    theirs whose cost is unknown.
    """

    format: str
    providers: Sequence[str]
    first_day: str
    last_day: str
    our_microusd: int
    their_microusd: int | None
    unpriced: int
    data: Sequence[ReconciledLine]


class Invoice(Struct, frozen=True):
    """An invoice, summed up."""

    tokens: Mapping[_Key, int]
    usd: Mapping[_Key, Decimal]
    has_tokens: bool  # whether it says them
    has_costs: bool  # whether it says them

    @property
    def keys(self) -> set[_Key]:
        return {*self.tokens, *self.usd}


def parse_invoice(raw: bytes, format: InvoiceFormat, models: Mapping[str, str]) -> Invoice:
    """Reads an invoice and sums its lines. Call it in a thread. Raises InvoiceError.

    `models` leads from the provider's names of models in invoices to those that requests have.
    """
    return _sum_invoice(read_invoice(raw, format), format, models)


def _sum_invoice(lines: Iterable[InvoiceLine], format: InvoiceFormat, models: Mapping[str, str]) -> Invoice:
    tokens: dict[_Key, int] = {}
    usd: dict[_Key, Decimal] = {}
    names: dict[str, str] = {}
    for line in lines:
        name = names.get(line.model)
        if name is None:
            name = names[line.model] = canonical_name(format, models.get(line.model, line.model))
        key = line.day, name, line.kind
        if line.tokens is not None:
            tokens[key] = tokens.get(key, 0) + line.tokens
        if line.usd is not None:
            usd[key] = usd.get(key, Decimal()) + line.usd
        if len(tokens) + len(usd) > MAX_LINES:
            raise InvoiceError(f"The file has more than {MAX_LINES:,} days, models and kinds of tokens.")
    if not tokens and not usd:
        raise InvoiceError("The file has no lines.")
    return Invoice(tokens, usd, bool(tokens), bool(usd))


async def reconcile(
    connection: AsyncConnection, snapshot: Snapshot, invoice: Invoice, format: InvoiceFormat, provider: str | None = None
) -> Reconciliation:
    """Compare with the records of all providers of this kind, or of one, of the days that the invoice has. Raises InvoiceError."""
    providers = [name for name, config in snapshot.providers.items() if config.adapter == format] if provider is None else [provider]
    if not providers:
        raise InvoiceError(f"No provider has the adapter {format!r}: name the one that this invoice is of.")
    days = [day for day, _, _ in invoice.keys]
    first, last = min(days), max(days)
    if (last - first).days >= MAX_DAYS:
        raise InvoiceError(f"The file is of more than {MAX_DAYS} days: {first} to {last}.")
    their_models = {model for _, model, _ in invoice.keys}
    is_total = any(kind == ALL for _, _, kind in invoice.usd)
    tokens: dict[_Key, int] = {}
    costs: dict[_Key, int] = {}
    unpriced = 0
    async for lines in walk_cost_lines(connection, first, last, providers):
        unpriced += sum({id(line.group): line.group.requests for line in lines if line.cost_microusd is None}.values())
        for line in lines:
            model = _model_of(line, format, their_models)
            kind = OTHER if line.kind.startswith(USE) else line.kind  # exports have one kind for all that is no token
            key = line.group.day, model, kind
            if kind not in (OTHER, "gpu_time"):
                tokens[key] = tokens.get(key, 0) + line.quantity
            if line.cost_microusd is not None:
                cost_key = (line.group.day, model, ALL) if is_total else key
                costs[cost_key] = costs.get(cost_key, 0) + line.cost_microusd
    keys = sorted({*tokens, *costs, *invoice.keys})
    their_total = sum(invoice.usd.values(), Decimal()) if invoice.has_costs else None
    return Reconciliation(
        format=format,
        providers=providers,
        first_day=first.isoformat(),
        last_day=last.isoformat(),
        our_microusd=sum(costs.values()),
        their_microusd=None if their_total is None else _microusd(their_total),
        unpriced=unpriced,
        data=[_line(key, tokens, costs, invoice, is_total=is_total) for key in keys],
    )


def _line(key: _Key, tokens: Mapping[_Key, int], costs: Mapping[_Key, int], invoice: Invoice, *, is_total: bool) -> ReconciledLine:
    day, model, kind = key
    is_cost_only = kind in (ALL, "other", "gpu_time")
    our_tokens = None if is_cost_only else tokens.get(key, 0)
    their_tokens = invoice.tokens.get(key, 0) if invoice.has_tokens and not is_cost_only else None
    says_cost = not is_total or kind == ALL
    our_cost = costs.get(key, 0) if says_cost else None
    their_cost = _microusd(invoice.usd.get(key, Decimal())) if invoice.has_costs and says_cost else None
    return ReconciledLine(
        *(day.isoformat(), model, kind),
        *(our_tokens, their_tokens, _difference(our_tokens, their_tokens)),
        *(our_cost, their_cost, _difference(our_cost, their_cost)),
    )


def _difference(ours: int | None, theirs: int | None) -> int | None:
    return None if ours is None or theirs is None else ours - theirs


def _model_of(line: CostLine, format: InvoiceFormat, their_models: set[str]) -> str:
    """The name under which the invoice has it: the host's own of what served, else the one that was requested of it."""
    reported = line.group.reported_model
    if reported is not None and (name := canonical_name(format, reported)) in their_models:
        return name
    return canonical_name(format, line.group.model)


def canonical_name(format: InvoiceFormat, model: str) -> str:
    """A model without a date at its end and without a location, as neither side always has them."""
    return list(candidate_names(format, model))[-1]


def _microusd(usd: Decimal) -> int:
    return int((usd * _MICROUSD).to_integral_value(ROUND_HALF_UP))


def parse_model_map(text: str) -> dict[str, str]:
    """Reads `INVOICE=REQUESTED,...`. Raises InvoiceError."""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if any(not name.strip() or not separator or not model.strip() for name, separator, model in pairs):
        raise InvoiceError("Models are written as NAME_IN_THE_INVOICE=MODEL, several separated by commas.")
    return {name.strip(): model.strip() for name, _, model in pairs}
