"""The rows of rollups that a query of analytics reads, as SQL: of each piece of its period, with the intervals and groups they are of."""

# Only names of this module become SQL; every value is a parameter.
# ruff: noqa: S608

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal

from app.store.postgres.conditions import values_of
from app.store.postgres.tables import rollup_tables, subject_rollup_tables
from app.store.usage.analytics_query import AnalyticsQuery, Piece, ceil_time, floor_time, is_subject
from app.store.usage.rollups import UNKNOWN

# Of a group, as text: what callers see, and filter by. A team or key that was removed is shown by its id; refusals may be of none.
_GROUP_EXPRESSIONS: Mapping[str, str] = {
    "team": f"coalesce(teams.name, rollup_groups.team_id::text, '{UNKNOWN}')",
    "key": f"coalesce('nx-' || keys.prefix, rollup_groups.key_id::text, '{UNKNOWN}')",
    "model": "rollup_groups.model",
    "provider": "rollup_groups.provider",
    "target": "CASE WHEN rollup_groups.provider = '' THEN '' ELSE rollup_groups.provider || '/' || rollup_groups.served_model END",
    "function": "rollup_groups.function",
    "variant": "rollup_groups.variant",
    "route": "rollup_groups.route",
    "status": "rollup_groups.status::text",
    "outcome": "rollup_groups.outcome",
    "error": "rollup_groups.error",
    "rule": "rollup_groups.rule",
}
_READ_COLUMNS = (
    *("time", "group_id", "requests", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "cost_microusd"),
    *("estimated_microusd", "unpriced", "duration_us", "max_duration_us"),
)

# Hours that are of one interval in UTC, and of another one in the time zone.
_Correction = Literal["added", "taken away"]


class RollupRows:
    """Builds what statements select from. `parameters` are those of what was built."""

    def __init__(self, query: AnalyticsQuery, only_teams: Collection[str] | None) -> None:
        self.parameters: dict[str, Any] = {}
        self._query = query
        self._subject = query.subject_dimension
        self._breadth = query.breadth(by_team=only_teams is not None or query.subject_dimension is not None)
        self._groups = self._groups_query(only_teams)

    def choose_subjects(self, values: Collection[str]) -> None:
        """Leaves out, of what is built from now on, all end users or values of a tag but these, if there is a grouping by them."""
        if self._query.groups_by_subject:
            self.parameters["chosen_values"] = sorted(values)

    def plain(self) -> str:
        """The rows of all pieces of the period, with their time and dimensions."""
        at = [] if self._query.interval is None else [f"{self._interval()} AS at"]
        pieces = [self._piece(piece, f"{number}", [*_READ_COLUMNS, *at]) for number, piece in enumerate(self._query.pieces)]
        return self._with_groups(pieces, ["groups.outcome", "rollups.*"])

    def signed(self, column: str) -> str:
        """The same for a column that can be added up, with the `sign` of each row."""
        pieces: list[str] = []
        for number, (piece, correction) in enumerate(_signed_pieces(self._query)):
            columns = ["group_id", column, f"{-1 if correction == 'taken away' else 1} AS sign"]
            conditions: list[str] = []
            if self._query.interval is not None:
                of_zone, of_utc = self._interval(), self._interval_of_utc()
                columns.append(f"{of_utc if piece.level == 'day' or correction == 'taken away' else of_zone} AS at")
                conditions += [] if correction is None else [f"{of_zone} <> {of_utc}"]
            pieces.append(self._piece(piece, f"_signed{number}", columns, *conditions))
        return self._with_groups(pieces, ["rollups.*"])

    def _interval(self) -> str:
        self.parameters["time_zone"] = self._query.time_zone
        return f"date_trunc('{self._query.interval}', time, :time_zone)"

    def _interval_of_utc(self) -> str:
        """Returns when the interval of the same date as in UTC begins in the time zone."""
        return f"date_trunc('{self._query.interval}', time AT TIME ZONE 'UTC') AT TIME ZONE CAST(:time_zone AS text)"

    def _piece(self, piece: Piece, name: str, columns: Sequence[str], *conditions: str) -> str:
        query = self._query
        self.parameters |= {f"begin{name}": piece.begin, f"end{name}": piece.end}
        where = [f"time >= :begin{name}", f"time < :end{name}", *conditions]
        if self._subject:
            self.parameters["subject"] = self._subject
            where.append("dimension = :subject")
            if self._subject in query.filters:
                self.parameters["subject_values"] = list(values_of(query.filters[self._subject]))
                where.append("value = ANY(CAST(:subject_values AS text[]))")
            if self._subject in query.excluded:
                self.parameters["excluded_values"] = list(values_of(query.excluded[self._subject]))
                where.append("value <> ALL(CAST(:excluded_values AS text[]))")
            if "chosen_values" in self.parameters:
                where.append("value = ANY(CAST(:chosen_values AS text[]))")
        selected = ", ".join([*columns, *(["value"] if self._subject else [])])
        return f"SELECT {selected} FROM {self._table(piece)} WHERE {' AND '.join(where)}"

    def _with_groups(self, pieces: Sequence[str], columns: Sequence[str]) -> str:
        named = enumerate(self._query.group_by)
        dimensions = [f"{'value' if is_subject(name) else f'groups.g{at}'} AS d{at}" for at, name in named]
        return (
            f"SELECT {', '.join([*dimensions, *columns])} FROM ({' UNION ALL '.join(pieces)}) AS rollups"
            f" JOIN ({self._groups}) AS groups ON groups.id = rollups.group_id"
        )

    def _table(self, piece: Piece) -> str:
        """The one with the fewest rows that has what the query needs."""
        tables = subject_rollup_tables if self._subject else rollup_tables
        broad = next((table for level, table in tables.items() if level == f"{piece.level}_and_{self._breadth}"), None)
        return (tables[piece.level] if broad is None else broad).name

    def _groups_query(self, only_teams: Collection[str] | None) -> str:
        query = self._query
        labels = [f"{_GROUP_EXPRESSIONS[name]} AS g{at}" for at, name in enumerate(query.group_by) if not is_subject(name)]
        conditions: list[str] = []
        given = [("", name, wanted) for name, wanted in query.filters.items()]
        given += [("NOT ", name, unwanted) for name, unwanted in query.excluded.items()]
        for at, (negation, name, values) in enumerate(each for each in given if not is_subject(each[1])):
            condition = f"{_GROUP_EXPRESSIONS[name]} = ANY(CAST(:filter{at} AS text[]))"
            if name == "status":  # 5xx is a class of them
                condition = f"({condition} OR rollup_groups.status / 100 || 'xx' = ANY(CAST(:filter{at} AS text[])))"
            conditions.append(negation + condition)
            self.parameters[f"filter{at}"] = list(values_of(values))
        if only_teams is not None:
            self.parameters["only_teams"] = sorted(only_teams)
            conditions.append("teams.name = ANY(CAST(:only_teams AS text[]))")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return (
            f"SELECT {', '.join(['rollup_groups.id', 'rollup_groups.outcome', *labels])} FROM rollup_groups"
            f" LEFT JOIN teams ON teams.id = rollup_groups.team_id LEFT JOIN keys ON keys.id = rollup_groups.key_id{where}"
        )


def _signed_pieces(query: AnalyticsQuery) -> Iterator[tuple[Piece, _Correction | None]]:
    """Yields the pieces for what can be added up and subtracted: with days in place of their hours.

    A day of a time zone is that of UTC without the hours that are of the next one there, and with those that are of it, which a
    correction is about. So little is read of the hours, which are 24 times as many.
    """
    for piece in query.pieces:
        days = Piece("day", ceil_time(piece.begin, "day"), floor_time(piece.end, "day"))
        if piece.level != "hour" or query.interval in (None, "hour") or days.begin >= days.end:
            yield piece, None
            continue
        yield days, None
        yield Piece("hour", days.begin, days.end), "added"
        yield Piece("hour", days.begin, days.end), "taken away"
        yield Piece("hour", piece.begin, days.begin), None
        yield Piece("hour", days.end, piece.end), None
