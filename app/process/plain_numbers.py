"""Numbers in messages: as people write them, without an exponent."""

from decimal import Decimal


def plain_number(number: float) -> str:
    """All of its digits: 0.00002, not 2e-05."""
    return format(Decimal(repr(number)), "f").removesuffix(".0")


def plain_usd(usd: float) -> str:
    """An amount of US dollars: $0.00002."""
    return f"${plain_number(usd)}"


def plain_microusd(microusd: int) -> str:
    """Formats millionths of a dollar exactly, as an amount of US dollars."""
    return plain_usd(microusd / 1_000_000)
