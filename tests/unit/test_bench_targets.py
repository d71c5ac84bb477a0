"""The targets of `make bench` are computed on the instance with limits on every request."""

from bench.report import report_tables
from bench.targets import DIRECT, NARTHEX, NARTHEX_LIMITS, TARGETS

PERCENTILES = ("p50_us_at_100", "p99_us_at_100", "p50_us_at_500", "p99_us_at_500", "chunk_delay_p99_us")
OTHERS = ("us_per_request", "us_per_chunk", "requests_per_s_per_core", "kib_per_held_stream", "failed_held", "writer_rows_per_s")
PEERS = ("litellm", "portkey", "sglang-router", "nginx")


def figures(each: float) -> dict[str, float]:
    return dict.fromkeys((*PERCENTILES, *OTHERS), each)


def test_targets_are_computed_on_the_instance_with_limits():
    run = {DIRECT: figures(0), NARTHEX: figures(1000), NARTHEX_LIMITS: figures(4000), **{peer: figures(2000) for peer in PEERS}}
    measured = {target.title: target.measure(run) for target in TARGETS}
    added = {"added by five limits on every request": 3000}
    milliseconds = {title: 4 for title in measured if title.startswith(("added latency", "chunk delay"))}
    ratios = {title: 2 for title in measured if "×" in title}
    assert measured == {**dict.fromkeys(measured, 4000), **added, **milliseconds, **ratios}


def test_targets_without_an_instance_with_limits_are_not_measured():
    assert {target.measure({DIRECT: figures(0), NARTHEX: figures(1000)}) for target in TARGETS} == {None}


def test_report_shows_the_costs_of_recording_beside_limits():
    run = {DIRECT: figures(0), NARTHEX: figures(1000), NARTHEX_LIMITS: {**figures(4000), "valkey_us_per_row": 76.0}}
    (recording,) = (table for table in report_tables(run, dict.fromkeys(run, ""), {}) if table.title.startswith("Behind the gateway"))
    assert ("Valkey, µs / inference", "76.0") in recording.rows
