"""Conditions and transactions that queries of every subject share."""

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from sqlalchemy import ARRAY, ColumnElement, Text, cast, func
from sqlalchemy.dialects.postgresql import UUID
from sqlalchemy.ext.asyncio import AsyncConnection

T = TypeVar("T", str, int)

# The value of a filter, or several of which any will do.
AnyOf = str | tuple[str, ...]


def values_of(wanted: T | tuple[T, ...] | None) -> tuple[T, ...]:
    """The values that a filter takes; none if it is not set."""
    if wanted is None:
        return ()
    return wanted if isinstance(wanted, tuple) else (wanted,)


def one_of(column: ColumnElement[str], values: Iterable[str]) -> ColumnElement[bool]:
    """Returns a condition like that of column.in_(), with a single parameter.

    A statement has at most 32,767 parameters.
    """
    return column == func.any(cast(list(values), ARRAY(Text)))


def unnested_ids(values: Iterable[str]) -> ColumnElement[str]:
    """Returns UUIDs as rows, with a single parameter."""
    return func.unnest(cast(list(values), ARRAY(UUID(as_uuid=False))), type_=UUID(as_uuid=False))


OpenTransaction = Callable[[], AbstractAsyncContextManager[AsyncConnection]]
