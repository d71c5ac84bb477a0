"""Conditions and transactions that queries of every subject share."""

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager

from sqlalchemy import ARRAY, ColumnElement, Text, cast, func
from sqlalchemy.ext.asyncio import AsyncConnection


def one_of(column: ColumnElement[str], values: Iterable[str]) -> ColumnElement[bool]:
    """Returns a condition like that of column.in_(), with a single parameter.

    A statement has at most 32,767 parameters.
    """
    return column == func.any(cast(list(values), ARRAY(Text)))


OpenTransaction = Callable[[], AbstractAsyncContextManager[AsyncConnection]]
