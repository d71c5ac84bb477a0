"""Pages of lists: cursors that continue after the last row, whatever was inserted or removed meanwhile."""

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Generic, Protocol, TypeVar, cast

import msgspec
from msgspec import Meta, Struct
from sqlalchemy import ColumnElement, Row, Select, and_, or_

from app.domain.errors import InvalidKeyField

T = TypeVar("T")

MAX_PAGE_ROWS = 1000

Limit = Annotated[int, Meta(ge=1, le=MAX_PAGE_ROWS, description="Most entries of the page.")]
After = Annotated[str, Meta(max_length=4096, description="`next` of the page before; the other parameters must be the same.")]


class Page(Struct, Generic[T], frozen=True):
    """A page of a list. `next`: give it as `after` for the next page; null: this is the last page."""

    data: Sequence[T]
    next: str | None


class PageQuery(Protocol):
    """The parameters of a list; its other fields are filters. A leading - of `sort` means descending."""

    @property
    def limit(self) -> int: ...
    @property
    def after(self) -> str | None: ...
    @property
    def sort(self) -> str: ...


class _Cursor(Struct, array_like=True, forbid_unknown_fields=True):
    scope: str
    values: list[Any]


def cursor_scope(query: PageQuery) -> str:
    """Returns a hash of what a cursor belongs to: sorting and filters, not the size of pages."""
    fields = {name: value for name, value in msgspec.structs.asdict(cast(Struct, query)).items() if name not in ("limit", "after")}
    return hashlib.sha256(msgspec.json.encode([type(query).__name__, fields])).hexdigest()[:12]


def write_cursor(scope: str, values: Sequence[Any]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(_Cursor(scope, list(values)))).decode().rstrip("=")


def read_cursor(cursor: str, scope: str, types: Sequence[type[Any]]) -> list[Any]:
    """The values of the last row. Raises InvalidKeyField for a cursor of another list, other filters, or of nobody's making."""
    try:
        content = msgspec.json.decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)), type=_Cursor)
        if content.scope != scope or len(content.values) != len(types):
            raise ValueError
        return [msgspec.convert(value, kind) for value, kind in zip(content.values, types, strict=True)]
    except (ValueError, binascii.Error, msgspec.MsgspecError, RecursionError):
        raise InvalidKeyField("after", "`after` must be the `next` of a page of this list with the same sorting and filters.") from None


class SortColumn(Struct, frozen=True):
    """A column to sort by, whose values are never null, and their type in Python."""

    column: ColumnElement[Any]
    kind: type[Any] = str


class Keyset(Struct, frozen=True):
    """How a list is sorted and continued: by the column of `sort` (a leading - for descending), then by a unique column."""

    sorts: Mapping[str, SortColumn]
    unique: SortColumn

    def page_query(self, select: Select[Any], query: PageQuery) -> Select[Any]:
        """The select for one page and one row more."""
        first, descending = self._sort_column(query.sort)
        columns = [first.column, self.unique.column]
        select = select.add_columns(first.column.label("_sorted"), self.unique.column.label("_unique"))
        if query.after is not None:
            last_value, last_unique = read_cursor(query.after, cursor_scope(query), [first.kind, self.unique.kind])
            select = select.where(_follows(first.column, last_value, self.unique.column, last_unique, descending))
        return select.order_by(*(each.desc() if descending else each.asc() for each in columns)).limit(query.limit + 1)

    def page(self, rows: Sequence[Row[Any]], query: PageQuery, convert: Callable[[Row[Any]], T]) -> Page[T]:
        """The page of the rows that page_query() selected; `convert` makes an entry of a row."""
        shown = rows[: query.limit]
        more = len(rows) > query.limit
        last = write_cursor(cursor_scope(query), [shown[-1]._sorted, shown[-1]._unique]) if more else None  # pyright: ignore[reportPrivateUsage]
        return Page([convert(row) for row in shown], last)

    def _sort_column(self, sort: str) -> tuple[SortColumn, bool]:
        return self.sorts[sort.removeprefix("-")], sort.startswith("-")


def _follows(column: ColumnElement[Any], value: Any, unique: ColumnElement[Any], last: Any, descending: bool) -> ColumnElement[bool]:
    """Rows after the last one. Not as a comparison of tuples: both columns may be the same.

    The first comparison says nothing new, but an index can be entered by it.
    """
    if descending:
        return and_(column <= value, or_(column < value, unique < last))
    return and_(column >= value, or_(column > value, unique > last))
