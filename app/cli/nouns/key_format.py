"""How a key is shown: its public part, its state and its permissions."""

from datetime import datetime
from typing import Any

import msgspec

from app.cli.output import format_drop
from app.cli.times import format_time
from app.store.teams.shown_keys import KeyRow


def public_prefix(key: str) -> str:
    """The public part of a key, as in nx-0123456789ab; of a complete key or of a part that was typed."""
    return f"nx-{key.removeprefix('nx-').split('-')[0]}"


def key_document(row: KeyRow) -> dict[str, Any]:
    """The key as JSON, with public parts as people type them."""
    others = {name: part and public_prefix(part) for name, part in (("replaced_by", row.replaced_by), ("counts_as", row.counts_as))}
    return {**msgspec.structs.asdict(row), "prefix": public_prefix(row.prefix), **others}


def table_row(row: KeyRow, now: datetime) -> tuple[str, ...]:
    """The key as a row of a table: key, team, name, created, state, permissions, priority, what may be dropped."""
    cells = public_prefix(row.prefix), row.team, row.name, format_time(row.created_at), _key_state(row, now), _permissions(row)
    return *cells, "team's" if row.priority is None else str(row.priority), format_drop(row.drop)


def is_valid(row: KeyRow, now: datetime) -> bool:
    return row.revoked_at is None and (row.expires_at is None or datetime.fromisoformat(row.expires_at) > now)


def _key_state(row: KeyRow, now: datetime) -> str:
    if row.revoked_at is not None:
        return f"revoked {format_time(row.revoked_at)}"
    if row.expires_at is None:
        return "works"
    state = f"{'until' if is_valid(row, now) else 'expired'} {format_time(row.expires_at)}"
    return f"{state}, then {public_prefix(row.replaced_by)}" if row.replaced_by else state


def _permissions(row: KeyRow) -> str:
    restrictions = (("models", row.models), ("routes", row.routes), ("from", row.networks))
    parts = [f"{label} {', '.join(allowed)}" for label, allowed in restrictions if allowed is not None]
    return "; ".join([*(["admin"] if row.admin else []), *parts]) or "everything"
