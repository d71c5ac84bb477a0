"""Retries and timeouts, of an entry or of all."""

from msgspec import Struct

from app.domain.routing import TimeoutConfig
from app.imports.source_table import SourceTable
from app.store.configuration.validation.validate import MAX_RETRIES

_STREAMS_TOO = "It ends streams, too, which may take longer: `timeouts.total_s` is of the whole attempt. Make it longer if streams are cut."


class AttemptSettings(Struct, frozen=True):
    """The retries and timeouts of an entry. None means not set."""

    retries: int | None = None
    timeout_s: float | None = None
    stream_timeout_s: float | None = None

    def timeouts(self) -> TimeoutConfig | None:
        if self.timeout_s is None and self.stream_timeout_s is None:
            return None
        # A stream that has not begun when its attempt ends can have no longer timeout for its beginning.
        first_s = min((each for each in (self.stream_timeout_s, self.timeout_s) if each is not None), default=None)
        return TimeoutConfig(first_token_s=first_s, total_s=self.timeout_s)


def read_attempt_settings(table: SourceTable, retries_keys: tuple[str, ...], timeout_keys: tuple[str, ...]) -> AttemptSettings:
    """Reads the settings of attempts. Of several keys that mean the same, the first one that is set counts."""
    retries = [number for key in retries_keys if (number := _read_retries(table, key)) is not None]
    timeouts_s = [number for key in timeout_keys if (number := _read_timeout(table, key, _STREAMS_TOO)) is not None]
    return AttemptSettings(next(iter(retries), None), next(iter(timeouts_s), None), _read_timeout(table, "stream_timeout"))


def with_defaults(own: AttemptSettings, general: AttemptSettings) -> AttemptSettings:
    """An entry's settings; what it leaves open is as for all."""
    return AttemptSettings(
        general.retries if own.retries is None else own.retries,
        general.timeout_s if own.timeout_s is None else own.timeout_s,
        general.stream_timeout_s if own.stream_timeout_s is None else own.stream_timeout_s,
    )


def _read_retries(table: SourceTable, key: str) -> int | None:
    number = table.whole(key)
    if number is None or 0 <= number <= MAX_RETRIES:
        return number
    table.report.changed(table.path_of(key), f"Retries are from 0 to {MAX_RETRIES}.")
    return min(max(number, 0), MAX_RETRIES)


def _read_timeout(table: SourceTable, key: str, remark: str | None = None) -> float | None:
    number = table.number(key)
    if number is None:
        return None
    if number <= 0:
        table.report.leave_out(table.path_of(key), "A timeout is more than 0 seconds.")
        return None
    if remark is not None:
        table.report.changed(table.path_of(key), remark)
    return number
