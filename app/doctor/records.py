"""Whether records get into the database: the spool, the writer, the quarantine."""

import json
import time
from pathlib import Path

from msgspec import Struct

from app.doctor.findings import Finding, Findings
from app.recording.spool.quarantine import QUARANTINE_SUFFIX
from app.recording.spool.segment_format import HEADER, list_segments, segment_created_ms
from app.recording.spool.writer_status import WriterStatus, read_status
from app.settings import Settings

_MAX_SILENCE_S = 10.0
_MAX_AGE_S = 60.0
_MAX_SPOOL_SHARE = 0.8
_MAX_REASON_CHARS = 200


class RecordFacts(Struct, frozen=True):
    """The facts about the spool and the writer that findings are made of."""

    spool_bytes: int
    segments_with_records: int  # of the spool
    oldest_segment_s: float  # the age of the spool's oldest segment
    quarantined: int
    quarantine: str
    last_reason: str
    writer: WriterStatus | None  # its last report
    writer_runs: bool  # whether it has reported within seconds, and its process exists
    silent_s: float  # the age of the writer's last report


def collect_facts(settings: Settings) -> RecordFacts:
    spool, quarantine = settings.home / "spool", settings.home / "quarantine"
    segments = [each for each in list_segments(spool) if not each.is_reserve] if spool.is_dir() else []
    segments_with_records = [each for each in segments if each.size > len(HEADER)]
    quarantined = sorted(quarantine.glob(f"*{QUARANTINE_SUFFIX}")) if quarantine.is_dir() else []
    writer = read_status(settings.home)
    now = time.time()
    silent_s = 0.0 if writer is None else max(0.0, now - writer.at)
    return RecordFacts(
        spool_bytes=sum(each.size for each in segments_with_records),
        segments_with_records=len(segments_with_records),
        oldest_segment_s=max((now - segment_created_ms(each.name) / 1000 for each in segments_with_records), default=0.0),
        quarantined=len(quarantined),
        quarantine=str(quarantine.absolute()),
        last_reason=_quarantine_reason(quarantined[-1]) if quarantined else "",
        writer=writer,
        writer_runs=writer is not None and silent_s < _MAX_SILENCE_S and Path(f"/proc/{writer.pid}").exists(),
        silent_s=silent_s,
    )


def oldest_record_s(facts: RecordFacts) -> float:
    """Age of the oldest record that is not in Postgres yet; 0: there is none."""
    if facts.writer is None:
        return facts.oldest_segment_s
    if facts.writer.oldest_s:
        return facts.writer.oldest_s + facts.silent_s
    return facts.silent_s if not facts.writer_runs and facts.segments_with_records else 0.0


def diagnose(facts: RecordFacts, settings: Settings) -> list[Finding]:
    findings = Findings("records")
    waiting = f"{facts.spool_bytes / 1e6:.1f} MB of records wait in the spool"
    if facts.writer is None or not facts.writer_runs:
        state = "has never run here" if facts.writer is None else f"does not run, or hangs: it reported last {facts.silent_s:.0f} s ago"
        add = findings.add_error if facts.segments_with_records else findings.add_warning
        add(f"The writer {state}; {waiting}.", "Start it: `narthex up` does; beside `narthex serve`, run `narthex writer`.")
    elif not facts.writer.connected and facts.writer.last_error:  # without an error it has only just started
        findings.add_error(
            f"The writer has no connection to PostgreSQL ({facts.writer.last_error}): {waiting}.",
            "Bring PostgreSQL back; nothing is lost meanwhile.",
        )
    elif oldest_record_s(facts) > _MAX_AGE_S:
        last_error = f" The writer's last error: {facts.writer.last_error}." if facts.writer.last_error else ""
        findings.add_error(
            f"The oldest record that is not stored is {oldest_record_s(facts):.0f} s old; {waiting}.{last_error}",
            "Is PostgreSQL slow or its disk full? The writer's log says more.",
        )
    if facts.spool_bytes > settings.spool_max_bytes:
        findings.add_error(
            f"The spool is over its maximum of {settings.spool_max_bytes / 1e6:.0f} MB: "
            + ("requests are refused." if settings.spool_when_full == "refuse" else "content is not kept."),
            "Let the writer empty it, or raise NARTHEX_SPOOL_MAX_BYTES.",
        )
    elif facts.spool_bytes > _MAX_SPOOL_SHARE * settings.spool_max_bytes:
        findings.add_warning(
            f"The spool has filled {facts.spool_bytes / settings.spool_max_bytes:.0%} of its maximum.",
            "Let the writer empty it, or raise NARTHEX_SPOOL_MAX_BYTES.",
        )
    if facts.quarantined:
        findings.add_warning(
            f"{facts.quarantined} record(s) could not be stored and were set aside; the last one: {facts.last_reason}",
            f"Look at {facts.quarantine}: each file's first line says why. Remove the files that you no longer need.",
        )
    if facts.writer is not None and facts.writer.lost_content:
        findings.add_warning(
            f"{facts.writer.lost_content} record(s) were stored without their content, for lack of space at the time.",
            "Make space on the disk of NARTHEX_HOME.",
        )
    return findings.finish(
        f"The writer keeps up: {facts.spool_bytes / 1e6:.1f} MB in the spool, nothing waits for long, and nothing was set aside."
    )


def _quarantine_reason(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return str(json.loads(file.readline(65536))["reason"])[:_MAX_REASON_CHARS]
    except (OSError, ValueError, KeyError, TypeError):
        return f"{path.name}, which does not say why"
