"""Retries and timeouts of models, providers and variants."""

from app.domain.routing import TimeoutConfig
from app.imports.source_table import SourceTable
from app.store.configuration.validation.validate import MAX_RETRIES

_MS = 1000


def read_timeouts(table: SourceTable) -> TimeoutConfig | None:
    """TensorZero's are of streams, of other responses, and of all attempts of a model or variant together; ours of each attempt."""
    timeouts = table.table("timeouts")
    whole, streaming = timeouts.table("non_streaming"), timeouts.table("streaming")
    totals = [total for each in (whole, streaming) if (total := _read_ms(each, "total_ms")) is not None]
    first_s = _read_ms(streaming, "ttft_ms")
    if len(totals) == 1 or len(set(totals)) > 1:
        table.report.changed(
            timeouts.path, "`total_s` is one time for streams and other responses, of each attempt: the longer of the two is used."
        )
    total_s = max(totals, default=None)
    if total_s is None and first_s is None:
        return None
    return TimeoutConfig(first_token_s=first_s if total_s is None or first_s is None else min(first_s, total_s), total_s=total_s)


def fit_timeouts(own: TimeoutConfig | None, outer: TimeoutConfig | None) -> TimeoutConfig | None:
    """A target's timeouts, of which none is longer than the attempt, also where its model sets that."""
    if own is None or outer is None:
        return own
    total_s = outer.total_s if own.total_s is None else own.total_s
    first_s = outer.first_token_s if own.first_token_s is None else own.first_token_s
    if total_s is None or first_s is None or first_s <= total_s:
        return own
    return TimeoutConfig(first_token_s=total_s, total_s=own.total_s)


def read_total_timeout(table: SourceTable, key: str) -> TimeoutConfig | None:
    """A timeout that is one number."""
    total_s = _read_ms(table, key)
    return None if total_s is None else TimeoutConfig(total_s=total_s)


def read_retries(table: SourceTable) -> int | None:
    """The number of retries; the gateway waits between them as it does, or as the host says."""
    retries = table.table("retries")
    number = retries.whole("num_retries")
    retries.read("max_delay_s")
    if number is None or 0 <= number <= MAX_RETRIES:
        return number
    table.report.changed(retries.path_of("num_retries"), f"Retries are from 0 to {MAX_RETRIES}.")
    return min(max(number, 0), MAX_RETRIES)


def _read_ms(table: SourceTable, key: str) -> float | None:
    number = table.number(key)
    if number is not None and number <= 0:
        table.report.leave_out(table.path_of(key), "A timeout is more than 0.")
        return None
    return None if number is None else number / _MS
