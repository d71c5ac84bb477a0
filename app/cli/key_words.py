"""A key as it is told: its public part, whether it works, and what it may."""

from datetime import datetime
from typing import Any

import msgspec

from app.cli.times import short
from app.store.keys import KeyRow


def public(key: str) -> str:
    """The public part of a key, or of what somebody typed for it."""
    return f"nx-{key.removeprefix('nx-').split('-')[0]}"


def document(row: KeyRow) -> dict[str, Any]:
    """For a program; public parts as people type them."""
    replaced_by = None if row.replaced_by is None else public(row.replaced_by)
    return {**msgspec.structs.asdict(row), "prefix": public(row.prefix), "replaced_by": replaced_by}


def line(row: KeyRow, now: datetime) -> tuple[str, ...]:
    """For a table: key, team, name, made, state, may."""
    return public(row.prefix), row.team, row.name, short(row.created_at), _state(row, now), _may(row)


def is_good(row: KeyRow, now: datetime) -> bool:
    return row.revoked_at is None and (row.expires_at is None or datetime.fromisoformat(row.expires_at) > now)


def _state(row: KeyRow, now: datetime) -> str:
    if row.revoked_at is not None:
        return f"revoked {short(row.revoked_at)}"
    if row.expires_at is None:
        return "works"
    state = f"{'until' if is_good(row, now) else 'expired'} {short(row.expires_at)}"
    return f"{state}, then {public(row.replaced_by)}" if row.replaced_by else state


def _may(row: KeyRow) -> str:
    restrictions = (("models", row.models), ("routes", row.routes), ("from", row.networks))
    told = [f"{what} {', '.join(those)}" for what, those in restrictions if those is not None]
    return "; ".join([*(["admin"] if row.admin else []), *told]) or "everything"
