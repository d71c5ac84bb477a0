"""Whether what was answered gets into the database: the spool, the writer, the quarantine."""

import json
import time
from pathlib import Path

from msgspec import Struct

from app.local.doctor.finding import Finding, Findings
from app.record.quarantine import SUFFIX
from app.record.segment import HEADER, listing, made_at_ms
from app.record.status import WriterStatus, read_status
from app.settings import Settings

_SILENT_S = 10.0
_OLD_S = 60.0
_FULL = 0.8
_LONGEST_REASON = 200


class RecordFacts(Struct, frozen=True):
    """`segments_with_records` and `oldest_segment_s` are of the folder; `writer` is what the writer said last, `silent_s` how long ago.

    `writer_runs`: it has said something within seconds, and its process is there.
    """

    spool_bytes: int
    segments_with_records: int
    oldest_segment_s: float
    quarantined: int
    quarantine: str
    last_reason: str
    writer: WriterStatus | None
    writer_runs: bool
    silent_s: float


def look(settings: Settings) -> RecordFacts:
    spool, quarantine = settings.home / "spool", settings.home / "quarantine"
    segments = [each for each in listing(spool) if not each.reserved] if spool.is_dir() else []
    full = [each for each in segments if each.size > len(HEADER)]
    aside = sorted(quarantine.glob(f"*{SUFFIX}")) if quarantine.is_dir() else []
    writer = read_status(settings.home)
    now = time.time()
    silent_s = 0.0 if writer is None else max(0.0, now - writer.at)
    return RecordFacts(
        spool_bytes=sum(each.size for each in full),
        segments_with_records=len(full),
        oldest_segment_s=max((now - made_at_ms(each.name) / 1000 for each in full), default=0.0),
        quarantined=len(aside),
        quarantine=str(quarantine.absolute()),
        last_reason=_reason(aside[-1]) if aside else "",
        writer=writer,
        writer_runs=writer is not None and silent_s < _SILENT_S and Path(f"/proc/{writer.pid}").exists(),
        silent_s=silent_s,
    )


def oldest_s(facts: RecordFacts) -> float:
    """Age of the oldest record that is not in Postgres; 0: there is none."""
    if facts.writer is None:
        return facts.oldest_segment_s
    if facts.writer.oldest_s:
        return facts.writer.oldest_s + facts.silent_s
    return facts.silent_s if not facts.writer_runs and facts.segments_with_records else 0.0


def judge(facts: RecordFacts, settings: Settings) -> list[Finding]:
    found = Findings("records")
    waiting = f"{facts.spool_bytes / 1e6:.1f} MB of records wait in the spool"
    if facts.writer is None or not facts.writer_runs:
        since = "has never run here" if facts.writer is None else f"does not run, or hangs: it was last heard of {facts.silent_s:.0f} s ago"
        say = found.wrong if facts.segments_with_records else found.warn
        say(f"The writer {since}; {waiting}.", "Start it: `narthex up` does, beside `narthex serve` it is `narthex writer`.")
    elif not facts.writer.connected and facts.writer.last_error:  # without one it has only just begun
        found.wrong(
            f"The writer has no connection to PostgreSQL ({facts.writer.last_error}): {waiting}.",
            "Bring PostgreSQL back; nothing is lost meanwhile.",
        )
    elif oldest_s(facts) > _OLD_S:
        why = f" Its last trouble: {facts.writer.last_error}." if facts.writer.last_error else ""
        found.wrong(
            f"The oldest record that is not stored is {oldest_s(facts):.0f} s old; {waiting}.{why}",
            "Is PostgreSQL slow or its disk full? The writer's log tells more.",
        )
    if facts.spool_bytes > settings.spool_max_bytes:
        found.wrong(
            f"The spool is over its bound of {settings.spool_max_bytes / 1e6:.0f} MB: "
            + ("requests are refused." if settings.spool_when_full == "refuse" else "content is not kept."),
            "Let the writer empty it, or raise NARTHEX_SPOOL_MAX_BYTES.",
        )
    elif facts.spool_bytes > _FULL * settings.spool_max_bytes:
        found.warn(
            f"The spool has filled {facts.spool_bytes / settings.spool_max_bytes:.0%} of its bound.",
            "Let the writer empty it, or raise NARTHEX_SPOOL_MAX_BYTES.",
        )
    if facts.quarantined:
        found.warn(
            f"{facts.quarantined} record(s) could not be stored and were set aside; the last one: {facts.last_reason}",
            f"Look at {facts.quarantine}: each file's first line says why. Remove what is settled.",
        )
    if facts.writer is not None and facts.writer.lost_content:
        found.warn(
            f"{facts.writer.lost_content} record(s) came without their content, for want of space at the time.",
            "Make space on the disk of NARTHEX_HOME.",
        )
    return found.all(f"The writer keeps up: {facts.spool_bytes / 1e6:.1f} MB in the spool, nothing waits for long, nothing is set aside.")


def _reason(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return str(json.loads(file.readline(65536))["reason"])[:_LONGEST_REASON]
    except (OSError, ValueError, KeyError, TypeError):
        return f"{path.name}, which does not say why"
