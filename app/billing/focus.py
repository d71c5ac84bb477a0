"""Costs as rows of FOCUS, the FinOps Open Cost and Usage Specification: one for each day, key, model and kind of token.

Of version 1.2, with the names of columns that 1.3 has in place of two deprecated ones, so that readers of either find theirs.
Source: https://focus.finops.org, FinOps-Open-Cost-and-Usage-Spec/FOCUS_Spec tag v1.2, read 2026-11.
"""

import asyncio
import csv
import datetime
import io
from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from decimal import Decimal
from fractions import Fraction

import msgspec

from app.billing.charged_tokens import DAY
from app.billing.cost_lines import USE, CostLine

COLUMNS = (
    *("BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd"),
    *("BilledCost", "EffectiveCost", "ListCost", "ContractedCost", "BillingCurrency", "ListUnitPrice", "ContractedUnitPrice"),
    *("ChargeCategory", "ChargeClass", "ChargeDescription", "ChargeFrequency"),
    *("PricingCategory", "PricingQuantity", "PricingUnit", "ConsumedQuantity", "ConsumedUnit"),
    *("ServiceCategory", "ServiceSubcategory", "ServiceName", "SkuId", "SkuPriceId", "SkuMeter", "SkuPriceDetails"),
    *("ProviderName", "PublisherName", "ServiceProviderName", "HostProviderName", "InvoiceIssuerName", "InvoiceId"),
    *("BillingAccountId", "BillingAccountName", "SubAccountId", "SubAccountName", "ResourceId", "ResourceName", "Tags"),
    *("x_Requests", "x_KeyId"),
)
_UNITS = {"gpu_time": "Seconds", "other": "Requests"}
_UNIT_SIZES = {"gpu_time": 1_000_000}
# A cell that begins so is a formula to spreadsheets: https://owasp.org/www-community/attacks/CSV_Injection, read 2026-11.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


async def write_focus(days: AsyncIterable[list[CostLine]]) -> AsyncGenerator[bytes]:
    """The head, then the rows of each day. Charges whose cost is unknown have no row: FOCUS has no unknown cost."""
    yield _csv([COLUMNS])
    async for lines in days:
        written = await asyncio.to_thread(_write_day, lines)
        if written:
            yield written


def _write_day(lines: Iterable[CostLine]) -> bytes:
    return _csv(_row(line, line.cost_microusd) for line in lines if line.cost_microusd is not None)


def _row(line: CostLine, cost_microusd: int) -> list[str]:
    group, day = line.group, line.group.day
    month = day.replace(day=1)
    next_month = (month + 32 * DAY).replace(day=1)
    cost = _decimal(Fraction(cost_microusd, 1_000_000))
    size = _UNIT_SIZES.get(line.kind, 1)
    unit_price = None if line.usd_per_million is None else line.usd_per_million / 1_000_000 * size
    quantity = Fraction(line.quantity, size)
    list_cost = cost if unit_price is None else _decimal(quantity * unit_price)
    unit, shown_quantity = "Uses" if line.kind.startswith(USE) else _UNITS.get(line.kind, "Tokens"), _decimal(quantity)
    shown_price = "" if unit_price is None else _decimal(unit_price)
    model = group.reported_model or group.model
    details = {
        "step": group.step or None,
        "tier": group.tier,
        "region": group.region,
        "hours": group.hours or None,
        "price": group.price,
    }
    sku = f"{group.provider}/{model}/{line.kind}"
    values = {
        "BillingPeriodStart": _time(month),
        "BillingPeriodEnd": _time(next_month),
        "ChargePeriodStart": _time(day),
        "ChargePeriodEnd": _time(day + DAY),
        "BilledCost": cost,
        "EffectiveCost": cost,
        "ListCost": list_cost,
        "ContractedCost": list_cost,
        "BillingCurrency": "USD",
        "ListUnitPrice": shown_price,
        "ContractedUnitPrice": shown_price,
        "ChargeCategory": "Usage",
        "ChargeDescription": f"{model}: {line.kind}",
        "ChargeFrequency": "Usage-Based",
        "PricingCategory": "Standard" if group.tier is None else "Other",
        "PricingQuantity": shown_quantity,
        "PricingUnit": unit,
        "ConsumedQuantity": shown_quantity,
        "ConsumedUnit": unit,
        "ServiceCategory": "AI and Machine Learning",
        "ServiceSubcategory": "Generative AI",
        "ServiceName": model,
        "SkuId": sku,
        "SkuPriceId": group.price or sku,
        "SkuMeter": line.kind,
        "SkuPriceDetails": _json({name: value for name, value in details.items() if value is not None}),
        "ProviderName": group.provider,
        "PublisherName": group.provider,
        "ServiceProviderName": group.provider,
        "HostProviderName": group.provider,
        "InvoiceIssuerName": group.provider,
        "BillingAccountId": group.provider,
        "BillingAccountName": group.provider,
        "SubAccountId": group.team_id,
        "SubAccountName": group.team or "",
        "ResourceId": group.key or group.key_id,
        "ResourceName": group.key or "",
        "Tags": _json({"team": group.team, "key": group.key}),
        "x_Requests": str(group.requests),
        "x_KeyId": group.key_id,
    }
    return [_safe(values.get(column, "")) for column in COLUMNS]


def _safe(text: str) -> str:
    return "'" + text if text.startswith(_FORMULA_STARTS) else text


def _time(day: datetime.date) -> str:
    return f"{day.isoformat()}T00:00:00Z"


def _decimal(number: Fraction) -> str:
    """Exact where the number has an end within 18 digits behind the point; never with an exponent."""
    text = f"{Decimal(number.numerator) / Decimal(number.denominator):.18f}"
    return text.rstrip("0").rstrip(".")


def _json(fields: dict[str, object]) -> str:
    return msgspec.json.encode(fields).decode()


def _csv(rows: Iterable[Iterable[str]]) -> bytes:
    lines = io.StringIO()
    csv.writer(lines).writerows(rows)
    return lines.getvalue().encode()
