"""The doctor with misconfigured servers: a Valkey that loses data; engines that are unreachable, refuse the key or lack the model."""

import json
from typing import Any

from app.doctor import engines, redis
from app.doctor.findings import Finding
from app.domain.routing import ModelConfig, ProviderConfig, Target
from app.domain.snapshot import Snapshot
from tests.support.processes.service import Service
from tests.support.processes.valkey import Valkey, valkey, valkey_server
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

__all__ = ["valkey", "valkey_server"]


def severities(findings: list[Finding]) -> list[str]:
    return [each.severity for each in findings]


async def test_doctor_reports_valkey_eviction_persistence_scripting_and_replica_role(valkey: Valkey) -> None:
    client: Any = valkey.client
    assert severities(redis.diagnose(await redis.collect_facts(valkey.url))) == ["ok"]
    client.config_set("maxmemory-policy", "allkeys-lru")
    client.config_set("maxmemory", "10mb")
    client.config_set("appendonly", "no")
    try:
        facts = await redis.collect_facts(valkey.url)
        assert (facts.name, facts.eviction, facts.max_bytes, facts.appends) == ("Valkey", "allkeys-lru", 10 * 1024 * 1024, False)
        assert severities(redis.diagnose(facts)) == ["warning", "error"]
        client.execute_command("ACL", "SETUSER", "poor", "on", "nopass", "~*", "+@all", "-@scripting")
        poor = await redis.collect_facts(valkey.url.replace("unix://", "unix://poor:any@"))
        assert poor.fault is None and not poor.runs_scripts
        client.replicaof("127.0.0.1", 9)
        assert (await redis.collect_facts(valkey.url)).is_replica
    finally:
        client.replicaof("NO", "ONE")
        client.execute_command("ACL", "DELUSER", "poor")
        for name, value in (("maxmemory-policy", "noeviction"), ("maxmemory", "0"), ("appendonly", "yes")):
            client.config_set(name, value)


async def test_doctor_reports_an_unreachable_redis() -> None:
    for url in ("redis://127.0.0.1:9", "unix:///nonexistent/socket", "http://127.0.0.1"):
        facts = await redis.collect_facts(url)
        assert facts.fault and severities(redis.diagnose(facts)) == ["error"]


async def test_doctor_lists_each_engines_models_with_its_credential() -> None:
    async def models(request: ReceivedRequest) -> None:
        if request.headers.get("authorization") != "Bearer secret":
            await request.respond(401, b'{"error": "who?"}')
        else:
            cards = [{"id": "here", "owned_by": "vllm"}, {"id": "there", "owned_by": "vllm"}]
            cards.append({"id": "sql", "owned_by": "vllm", "parent": "here"})
            await request.respond(200, json.dumps({"data": cards}).encode())

    engine = ScriptedEngine()
    engine.get_responses["/v1/models"] = models
    await engine.start()
    address = f"http://127.0.0.1:{engine.port}"
    cloud = {"region": "eu-west-1"}
    providers = {
        "signed": ProviderConfig("bedrock", address + "/aws", "env:AWS_KEYS", cloud),
        "good": ProviderConfig("openai", address, "env:ENGINE_KEY"),
        "bare": ProviderConfig("openai", address + "/v1"),
        "unset": ProviderConfig("openai", address, "env:NO_SUCH_VARIABLE_HERE"),
        "gone": ProviderConfig("vllm", "http://127.0.0.1:9"),
        "idle": ProviderConfig("openai", "http://127.0.0.1:9"),
    }
    targets = {
        "fits": ("good", "here"),
        "signed": ("signed", "a.model-v1:0"),
        "misfit": ("good", "nowhere"),
        "refused": ("bare", "here"),
        "lost": ("gone", "x"),
        "mute": ("unset", "x"),
    }
    models_of = {name: ModelConfig((Target(provider, model),)) for name, (provider, model) in targets.items()}
    models_of |= {name: ModelConfig((Target("good", "here", lora=lora),)) for name, lora in {"adapted": "sql", "unloaded": "poems"}.items()}
    directory = Snapshot(1, "hash", providers, models_of)
    try:
        facts = await engines.collect_facts(
            directory, {"ENGINE_KEY": " secret\n", "AWS_KEYS": '{"access_key_id": "AKIA1", "secret_access_key": "s"}'}
        )
    finally:
        await engine.stop()
    assert {each.provider: each.status for each in facts.endpoints} == {"good": 200, "bare": 401, "unset": 401, "gone": None, "signed": 404}
    assert {request.path for request in engine.get_requests} == {"/v1/models", "/"}
    assert all("authorization" not in request.headers for request in engine.get_requests if request.path == "/"), (
        "of AWS it only tests whether it responds"
    )
    reported = {(each.severity, each.message.partition(" on ")[0].partition(":")[0]) for each in engines.diagnose(facts, directory)}
    assert reported == {
        ("error", "Provider unset"),  # once, because its credential is missing
        ("error", "Provider bare"),
        ("error", "Provider gone"),
        ("error", "No target of model lost answers."),
        ("warning", "Model misfit"),
        ("warning", "Model unloaded"),
    }
    assert "secret" not in str(facts)


async def test_the_api_diagnoses_as_the_command_does(service: Service):
    async with service.admin_client() as admin:
        answer = await admin.get("/admin/v1/doctor")
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert found["healthy"] == all(each["severity"] != "error" for each in found["data"])
        assert {"gateway", "postgres", "redis"} <= {each["area"] for each in found["data"]}
