"""The doctor's findings: each unhealthy fact gives a message and advice, and healthy facts give none."""

import os
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from app.doctor import database, engines, gateway, limits, machine, processes, records, redis
from app.doctor.database import DatabaseFacts
from app.doctor.endpoint_probe import EndpointFacts
from app.doctor.engines import EngineFacts
from app.doctor.findings import Finding, worst_first
from app.doctor.gateway import GatewayFacts, Health, RefusingLimits
from app.doctor.machine import ExposedFile, MachineFacts
from app.doctor.mask_password import mask_password
from app.doctor.processes import ProcessStatus
from app.doctor.records import RecordFacts
from app.doctor.redis import RedisFacts
from app.doctor.redis_topology import TopologyFacts
from app.domain.limits import Limit
from app.domain.routing import ModelConfig, ProviderConfig, Target
from app.domain.snapshot import Snapshot
from app.recording.spool.writer_status import WriterStatus
from app.settings import Settings
from app.store.configuration.validation.known_names import KnownNames
from app.store.schema.postgres_status import PostgresStatus, WorkerRow

SETTINGS = Settings()
HOME = Path("/somewhere/home")
SNAPSHOT = Snapshot(
    7,
    "hash",
    {"gpu": ProviderConfig("vllm", "http://10.0.0.5:8000", "env:GPU_KEY"), "spare": ProviderConfig("openai", "http://10.0.0.9/v1")},
    {"small": ModelConfig((Target("gpu", "Small-1"),), ("large",)), "large": ModelConfig((Target("spare", "Large-1"),))},
)
MACHINE = MachineFacts((3, 11), str(HOME), 1000, 0o700, 1000, (), 50_000_000_000, 10**6, 100_000, 100_000, 4, True)
GATEWAY = GatewayFacts("http://127.0.0.1:8787", 200, 0.002, Health("ready", 7, "connected"))
POSTGRES = PostgresStatus(
    "18.6",
    180006,
    "0004",
    "0004",
    0.001,
    0.0,
    False,
    12,
    100,
    False,
    True,
    SNAPSHOT,
    KnownNames(),
    (WorkerRow("gateway-0", 7, 3.0),),
    0,
)
REDIS = RedisFacts("redis://cache", None, "Valkey", "9.1.2", 0.001, 0.0, False, False, True, False, "noeviction", 10**6, 0)
WRITER = WriterStatus(at=0.0, pid=1, connected=True, rows=10)
RECORDS = RecordFacts(1000, 1, 2.0, 0, "/somewhere/home/quarantine", "", WRITER, True, 0.5)
GPU, SPARE = EndpointFacts("gpu", "http://10.0.0.5:8000", 200, frozenset({"Small-1"})), EndpointFacts("spare", "http://10.0.0.9/v1", 404)
RULE = Limit("per team", {"team": "search"}, "requests", 100, "minute")
ENGINES = EngineFacts((GPU, SPARE), {})
RUNNING = tuple(ProcessStatus(name, 100 + at, True, 60.0) for at, name in enumerate(("supervisor", "gateway-0", "writer")))


def machine_findings(**changes: object) -> list[Finding]:
    return machine.diagnose(msgspec.structs.replace(MACHINE, **changes), SETTINGS)


def gateway_findings(**changes: object) -> list[Finding]:
    return gateway.diagnose(msgspec.structs.replace(GATEWAY, **changes))


def postgres_findings(**changes: object) -> list[Finding]:
    return database.diagnose(DatabaseFacts("postgresql://db/narthex", msgspec.structs.replace(POSTGRES, **changes)))


SENTINELS = TopologyFacts("sentinel", "a:6379", sentinels=3, replicas=1)
CLUSTER = TopologyFacts("cluster", "a:6379", replicas=1, primaries=3)
replace_facts = msgspec.structs.replace


def redis_findings(**changes: object) -> list[Finding]:
    return redis.diagnose(msgspec.structs.replace(REDIS, **changes))


def record_findings(**changes: object) -> list[Finding]:
    return records.diagnose(msgspec.structs.replace(RECORDS, **changes), SETTINGS)


def engine_findings(*endpoints: EndpointFacts, **unreadable: str) -> list[Finding]:
    return engines.diagnose(EngineFacts(endpoints, unreadable), SNAPSHOT)


def limit_findings(limit: Limit, **environment: object) -> list[Finding]:
    snapshot = msgspec.structs.replace(SNAPSHOT, limits=(limit,))
    return limits.diagnose(snapshot, KnownNames({"search"}), replace(SETTINGS, **{"redis_url": "redis://cache", **environment}))


def process_findings(*found: ProcessStatus) -> list[Finding]:
    return processes.diagnose(found, HOME)


def environment_findings(**variables: str) -> list[Finding]:
    return machine.read_settings(variables)[1]


def test_healthy_facts_give_one_ok_finding_per_area() -> None:
    healthy = [
        machine_findings(),
        gateway_findings(),
        postgres_findings(),
        redis_findings(),
        record_findings(),
        engines.diagnose(ENGINES, SNAPSHOT),
        limit_findings(RULE),
        limits.diagnose(SNAPSHOT, KnownNames(), SETTINGS),
        process_findings(*RUNNING),
        environment_findings(NARTHEX_PORT="9000", PATH="/bin", NARTHEX_KEY="nx-1"),
    ]
    assert [[each.severity for each in found] for found in healthy] == [["ok"]] * len(healthy)
    assert all(found[0].message.endswith(".") and found[0].advice is None for found in healthy)


UNHEALTHY_CASES = {
    # name: (findings, severity, part of the message, part of the advice)
    "an old Python": (machine_findings(python=(3, 10)), "error", "Python 3.10", "newer Python"),
    "no home": (machine_findings(home_mode=None), "warning", "no home yet", "narthex up"),
    "another's home": (machine_findings(home_owner=0), "error", "belongs to user 0", "owner"),
    "an open home": (machine_findings(home_mode=0o755), "warning", "may list the files", "chmod go-r"),
    "a writable home": (machine_findings(home_mode=0o777), "error", "may write", "chmod go-w"),
    "readable keys": (
        machine_findings(exposed_files=(ExposedFile("/h/first-key", 0o644),)),
        "error",
        "first-key (mode 644)",
        "chmod 600 /h/first-key",
    ),
    "a full disk": (machine_findings(free_bytes=1000), "error", "full", "Make space"),
    "a nearly full disk": (machine_findings(free_bytes=500_000_000), "warning", "500 MB", "Make space"),
    "no more files": (machine_findings(free_inodes=5), "error", "5 more files", "Remove"),
    "few open files": (machine_findings(gateway_max_open_files=1024), "warning", "A gateway process may open 1024 files", "ulimit"),
    "many workers": (machine.diagnose(MACHINE, Settings(workers=9)), "warning", "NARTHEX_WORKERS=9", "4 or less"),
    "a silent gateway": (gateway_findings(fault="refused", health=None), "error", "Nothing answers on http://127.0.0.1:8787", "narthex up"),
    "a gateway that hangs": (
        gateway_findings(fault="no word", hangs=True, health=None),
        "error",
        "does not answer",
        "end the gateway's process",
    ),
    "a port taken by another program": (gateway_findings(health=None, status=404), "error", "not Narthex", "NARTHEX_PORT"),
    "limits that wait for records": (
        gateway_findings(health=Health("ready", 7, "connected", limits_refusing=RefusingLimits(3, "12:00", "13:00", "the writer"))),
        "error",
        "lost its memory at 12:00. What 3 limits had counted is not known",
        "waits for the writer",
    ),
    "limits that stay full": (
        gateway_findings(health=Health("ready", 7, "connected", limits_refusing=RefusingLimits(3, "12:00", "13:00"))),
        "error",
        "until 13:00 at the latest",
        'with "empty"',
    ),
    "a gateway that shuts down": (gateway_findings(health=Health("draining", 7, "connected")), "error", "draining", "ended"),
    "a gateway without Postgres": (
        gateway_findings(health=Health("ready", 7, "away")),
        "error",
        "cannot reach PostgreSQL",
        "Bring PostgreSQL back",
    ),
    "a slow gateway": (gateway_findings(answered_s=1.5), "warning", "1.5 s", "too much"),
    "lost records": (gateway_findings(records_lost=3), "error", "3 records were lost", "space"),
    "lost content": (gateway_findings(content_lost=3), "warning", "3 records were kept without their content", "space"),
    "no database": (database.diagnose(DatabaseFacts("", fault="none")), "error", "DATABASE_URL is not set", "DATABASE_URL"),
    "a database away": (database.diagnose(DatabaseFacts("postgresql://db", fault="refused")), "error", "refused", "Is it running"),
    "no tables": (postgres_findings(revision=None), "error", "no tables", "narthex migrate"),
    "old tables": (postgres_findings(revision="0001"), "error", "version 0001, and this Narthex needs 0004", "narthex migrate"),
    "newer tables": (postgres_findings(revision="0009"), "error", "does not know", "newer one"),
    "a read-only database": (postgres_findings(is_read_only=True), "error", "takes no changes", "primary"),
    "Postgres's clock": (postgres_findings(skew_s=-90.0), "warning", "90.0 s behind", "clocks"),
    "no notifications": (postgres_findings(receives_notifications=False), "error", "do not arrive", "DATABASE_DIRECT_URL"),
    "few connections": (postgres_findings(connections=99), "warning", "99 of PostgreSQL's 100", "max_connections"),
    "a slow database": (postgres_findings(response_s=0.4), "warning", "400 ms", "limits"),
    "an old database": (postgres_findings(version_number=130001, version="13.1"), "error", "13.1", "Upgrade"),
    "a worker behind": (postgres_findings(workers=(WorkerRow("gateway-1", 6, 3.0),)), "warning", "gateway-1", "logs"),
    "no redis": (redis.diagnose(RedisFacts("", fault="none")), "error", "REDIS_URL is not set", "REDIS_URL"),
    "redis away": (redis.diagnose(RedisFacts("redis://cache", fault="refused")), "error", "refused", "Is it running"),
    "an old redis": (redis_findings(name="Redis", version="5.0.1"), "error", "5.0.1", "6.2"),
    "a replica": (redis_findings(is_replica=True), "error", "replica", "primary"),
    "a cluster that is named as a server": (redis_findings(is_cluster=True), "error", "cluster", "redis+cluster://"),
    "a silent sentinel": (redis_findings(topology=replace_facts(SENTINELS, silent=("b:26379 (refused)",))), "warning", "refused", "Start"),
    "sentinels that disagree": (redis_findings(topology=replace_facts(SENTINELS, disagreeing=("b:1 (c:2)",))), "error", "c:2", "split"),
    "two sentinels": (redis_findings(topology=replace_facts(SENTINELS, sentinels=2)), "warning", "majority", "Run 3"),
    "a primary without a replica": (redis_findings(topology=replace_facts(SENTINELS, replicas=0)), "warning", "no replica", "replica"),
    "a node without a replica": (redis_findings(topology=replace_facts(CLUSTER, replicas=0)), "warning", "has the limits", "replica"),
    "a broken cluster": (redis_findings(topology=replace_facts(CLUSTER, unowned_slots=9)), "error", "9 have no owner", "CLUSTER NODES"),
    "no right to scripts": (redis_findings(runs_scripts=False), "error", "no scripts", "+@scripting"),
    "nothing appended": (redis_findings(appends=False), "warning", "append-only", "appendonly yes"),
    "a failed write": (redis_findings(last_write_failed=True), "error", "to disk", "space"),
    "eviction": (redis_findings(eviction="allkeys-lru", max_bytes=10**8), "error", "allkeys-lru", "noeviction"),
    "eviction without a bound": (redis_findings(eviction="volatile-lru"), "warning", "volatile-lru", "noeviction"),
    "a full redis": (redis_findings(used_bytes=99, max_bytes=100), "warning", "full", "maxmemory"),
    "redis's clock": (redis_findings(skew_s=30.0), "warning", "30.0 s", "clocks"),
    "a far redis": (redis_findings(answered_s=0.05), "warning", "50 ms", "nearer"),
    "no writer": (record_findings(writer=None, writer_runs=False), "error", "has never run here", "narthex writer"),
    "no writer and nothing to write": (
        record_findings(writer=None, writer_runs=False, segments_with_records=0),
        "warning",
        "never",
        "narthex",
    ),
    "a dead writer": (record_findings(writer_runs=False, silent_s=90.0), "error", "90 s ago", "narthex writer"),
    "a writer without Postgres": (
        record_findings(writer=msgspec.structs.replace(WRITER, connected=False, last_error="refused")),
        "error",
        "no connection to PostgreSQL (refused)",
        "nothing is lost",
    ),
    "a writer behind": (record_findings(writer=msgspec.structs.replace(WRITER, oldest_s=600.0)), "error", "600 s old", "PostgreSQL slow"),
    "a full spool": (record_findings(spool_bytes=SETTINGS.spool_max_bytes + 1), "error", "requests are refused", "NARTHEX_SPOOL_MAX_BYTES"),
    "a filling spool": (record_findings(spool_bytes=int(0.9 * SETTINGS.spool_max_bytes)), "warning", "90%", "NARTHEX_SPOOL_MAX_BYTES"),
    "a quarantine": (record_findings(quarantined=2, last_reason="a NUL"), "warning", "2 record(s)", "/somewhere/home/quarantine"),
    "content without space": (record_findings(writer=msgspec.structs.replace(WRITER, lost_content=4)), "warning", "4 record(s)", "space"),
    "a silent engine": (
        engine_findings(msgspec.structs.replace(GPU, status=None, models=None, fault="refused"), SPARE),
        "error",
        "No target of model small (falls back to large) answers",
        "Start the engines",
    ),
    "an engine that refuses us": (
        engine_findings(GPU, msgspec.structs.replace(SPARE, status=401)),
        "error",
        "refuses our credential",
        "valid one",
    ),
    "an engine that fails": (engine_findings(GPU, msgspec.structs.replace(SPARE, status=500)), "warning", "status 500", "own log"),
    "a model that is not there": (
        engine_findings(msgspec.structs.replace(GPU, models=frozenset({"Other"})), SPARE),
        "warning",
        "does not list 'Small-1'",
        "Name a model",
    ),
    "too many slow engines": (engines.diagnose(EngineFacts((GPU, SPARE), {}, 7), SNAPSHOT), "warning", "7 endpoint(s)", "run it again"),
    "a LoRA adapter that is not loaded": (
        engines.diagnose(
            EngineFacts((msgspec.structs.replace(GPU, loras=frozenset({"sql"})), SPARE), {}),
            msgspec.structs.replace(SNAPSHOT, models={"terse": ModelConfig((Target("gpu", "Small-1", lora="poems"),)), **SNAPSHOT.models}),
        ),
        "warning",
        "Model terse: gpu on http://10.0.0.5:8000 has no LoRA adapter 'poems': callers of it are refused (404). It has: sql.",
        "load_lora",
    ),
    "no credential": (engine_findings(GPU, SPARE, gpu="There is none."), "error", "Provider gpu: There is none.", "environment"),
    "nothing configured": (engines.diagnose(EngineFacts((), {}), Snapshot(0, "", {}, {})), "warning", "No provider", "narthex apply"),
    "a limit that no request meets": (
        limit_findings(Limit("tiny", {"all": "each"}, "tokens", 3, "minute")),
        "warning",
        "tiny",
        "narthex apply",
    ),
    "a limit for nobody": (limit_findings(Limit("r", {"team": "gone"}, "requests", 3, "minute")), "warning", "gone", "narthex apply"),
    "limits without a redis": (limit_findings(RULE, redis_url=""), "error", "no Redis to count", "REDIS_URL"),
    "nothing runs": (process_findings(), "error", "Nothing runs in /somewhere/home", "narthex up"),
    "a dead process": (process_findings(*RUNNING, ProcessStatus("valkey", 9, False, None)), "error", "valkey does not run", "valkey.log"),
    "no supervisor": (process_findings(*RUNNING[1:]), "error", "writer (process 102) runs without its supervisor", "kill 102"),
    "no gateway": (process_findings(RUNNING[0], RUNNING[2]), "error", "No gateway process", "logs"),
    "a bad setting": (environment_findings(NARTHEX_PORT="many"), "error", "NARTHEX_PORT='many'", "NARTHEX_PORT"),
    "a port too high": (environment_findings(NARTHEX_PORT="70000"), "error", "70000", "65535"),
    "a misspelt setting": (environment_findings(NARTHEX_PROT="9000"), "warning", "NARTHEX_PROT", "NARTHEX_PORT"),
    "content kept longer than its rows": (environment_findings(NARTHEX_KEEP_INFERENCES_DAYS="3"), "warning", "outlive", "no longer"),
}


@pytest.mark.parametrize("case", UNHEALTHY_CASES)
def test_unhealthy_fact_gives_a_finding_with_its_severity_message_and_advice(case: str) -> None:
    found, severity, message, advice = UNHEALTHY_CASES[case]
    matching = [each for each in found if message in each.message]
    assert [each.severity for each in matching] == [severity], found
    assert matching[0].advice is not None and advice in matching[0].advice
    assert "ok" not in {each.severity for each in found}


def test_findings_are_ordered_by_severity_worst_first() -> None:
    found = worst_first([Finding("a", "ok", "1"), Finding("b", "warning", "2"), Finding("c", "error", "3"), Finding("d", "error", "4")])
    assert [each.message for each in found] == ["3", "4", "2", "1"]


def test_invalid_setting_keeps_its_default_while_others_are_read() -> None:
    settings, found = machine.read_settings({"NARTHEX_WORKERS": "many", "NARTHEX_PORT": "9000", "NARTHEX_SPOOL_FSYNC": "perhaps"})
    assert (settings.workers, settings.port, settings.spool_fsync) == (Settings().workers, 9000, "never")
    assert len(found) == 2


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:secret@db:5432/n?sslmode=require", "postgresql://u:...@db:5432/n?sslmode=require"),
        ("postgresql://u@/n?host=/tmp/x&password=secret", "postgresql://u@/n?host=/tmp/x&password=..."),
        ("redis://:secret@cache:6379/0", "redis://:...@cache:6379/0"),
        ("redis://cache:6379", "redis://cache:6379"),
        ("postgresql://u:se/cr@et@db/n", "postgresql://u:...@db/n"),
        ("unix:///tmp/valkey.sock?db=0", "unix:///tmp/valkey.sock?db=0"),
    ],
)
def test_connection_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert mask_password(url) == shown


def test_reused_process_id_is_not_reported_as_running(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for name, text, noted_at in (
        ("gateway-0", f"{os.getpid()}\n", None),
        ("writer", f"{os.getpid()}\n", 1000.0),
        ("valkey", "999999999\n", None),
        ("supervisor", "", None),
    ):
        path = tmp_path / "run" / f"{name}.pid"
        path.write_text(text)
        if noted_at:
            os.utime(path, (noted_at, noted_at))
    found = {each.name: (each.pid, each.running) for each in processes.collect_facts(tmp_path)}
    assert found == {
        "gateway-0": (os.getpid(), True),
        "writer": (os.getpid(), False),
        "valkey": (999999999, False),
        "supervisor": (None, False),
    }


def test_home_inspection_reports_readable_keys_and_quarantined_records(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    for name, mode in (("first-key", 0o644), ("admin-key", 0o600)):
        (tmp_path / name).write_text("nx-secret")
        (tmp_path / name).chmod(mode)
    facts = machine.collect_facts(Settings(home=tmp_path), None)
    assert [each.path for each in facts.exposed_files] == [str(tmp_path / "first-key")]
    assert facts.home_mode == 0o700 and facts.free_bytes > 0 and facts.max_open_files > 0
    (tmp_path / "quarantine").mkdir()
    (tmp_path / "quarantine" / "a-1.bad").write_bytes(b'{"segment": "a", "reason": "a NUL in a name"}\nbytes')
    record_facts = records.collect_facts(Settings(home=tmp_path))
    assert (record_facts.quarantined, record_facts.last_reason, record_facts.writer) == (1, "a NUL in a name", None)


def test_settings_that_are_files_of_the_service_manager_are_read(tmp_path: Path) -> None:
    (tmp_path / "REDIS_URL").write_text("redis://cache")
    settings, found = machine.read_settings({"CREDENTIALS_DIRECTORY": str(tmp_path), "NARTHEX_PORT": "9000"})
    assert (settings.redis_url, settings.port) == ("redis://cache", 9000) and [each.severity for each in found] == ["ok"]
    (tmp_path / "NARTHEX_WORKERS").write_text("many")
    settings, found = machine.read_settings({"CREDENTIALS_DIRECTORY": str(tmp_path), "NARTHEX_PORT": "9000"})
    assert settings.port == 9000 and [each.severity for each in found] == ["error"] and "NARTHEX_WORKERS='many'" in found[0].message


def test_address_without_such_an_api_is_an_error_that_names_the_address():
    (finding,) = [each for each in engine_findings(msgspec.structs.replace(SPARE, has_api=False), GPU) if "no such API" in each.message]
    assert "http://10.0.0.9/v1" in finding.message and finding.advice is not None and "base_url" in finding.advice
