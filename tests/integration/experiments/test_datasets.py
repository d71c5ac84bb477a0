"""Datasets through the whole service: every caller's API to lines for training, over the admin API and by commands."""

import importlib
import io
import json
import uuid
from typing import Any

import httpx2
import pytest

from app.store.formats.parquet_lines import can_write
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import database_url
from tests.support.processes.wait_until import wait_until
from tests.support.processes.writer_process import fetch
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine, completion
from tests.support.strategies.training_lines import check_chat_line, check_completion_line, check_preference_line

DATASETS = "/admin/v1/datasets"
TOOL: Any = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}


@pytest.fixture(scope="module")
def models(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> None:
    service.apply(f"""
        [providers.ds-engine]
        adapter = "openai"
        base_url = "http://127.0.0.1:{engines[0].port}"
        [models.ds-model]
        targets = [{{ provider = "ds-engine", model = "m" }}]
        [functions.ds-answer.schemas.system]
        type = "object"
        properties.name.type = "string"
        [functions.ds-answer.variants.terse]
        model = "ds-model"
        system_template = "Answer {{{{ name }}}} briefly."
        [metrics.ds-helpful]
        kind = "boolean"
        level = "inference"
        [teams.ds-private]
        content = "none"
        [teams.ds-masked]
        content = "masked"
        mask = {{ detectors = ["email"] }}
    """)


pytestmark = pytest.mark.usefixtures("models")


async def answer(request: ReceivedRequest) -> None:
    await request.respond(200, json.dumps(completion("Hello.")).encode())


@pytest.fixture(autouse=True)
def answering(engine: ScriptedEngine) -> None:
    engine.script = answer


def unique(prefix: str = "ds") -> str:
    return f"{prefix}-{uuid.uuid4().hex[:10]}"


async def send(client: httpx2.AsyncClient, path: str, body: dict[str, Any], tag: str, **headers: str) -> str:
    tags = {"x-narthex-tags": json.dumps({"ds": tag})}
    response = await client.post(path, json=body, headers={**tags, **headers})
    assert response.status_code == 200, response.text
    return response.headers["x-narthex-inference-id"]


async def build(service: Service, name: str, **selection: Any) -> dict[str, Any]:
    """A dataset's first version, once it is built."""
    async with service.admin_client() as admin:
        created = await admin.post(DATASETS, json={"name": name, "selection": selection})
        assert created.status_code == 201, created.text

        async def is_built() -> bool:
            nonlocal version
            version = (await admin.get(f"{DATASETS}/{name}/versions/1")).json()
            return version["status"] != "building"

        version: dict[str, Any] = {}
        await wait_until(is_built)
    return version


async def export(service: Service, name: str, **query: str) -> list[dict[str, Any]]:
    async with service.admin_client() as admin:
        exported = await admin.get(f"{DATASETS}/{name}/versions/1/export", params=query)
    assert (exported.status_code, exported.headers["content-type"]) == (200, "application/jsonl"), exported.text
    return [json.loads(line) for line in exported.text.splitlines()]


REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (
        "/v1/chat/completions",
        {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}], "tools": [TOOL]},
    ),
    "streamed chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "stream": True}),
    "responses": ("/v1/responses", {"instructions": "Be brief.", "input": "Hi"}),
    "messages": ("/v1/messages", {"max_tokens": 4000, "system": "Be brief.", "messages": [{"role": "user", "content": "Hi"}]}),
    "inference": ("/inference", {"input": {"system": "Be brief.", "messages": [{"role": "user", "content": "Hi"}]}}),
}


async def test_requests_of_every_api_become_lines_for_training(service: Service, client: httpx2.AsyncClient):
    tag, name = unique(), unique()
    ids: dict[str, str] = {}
    for kind, (path, body) in REQUESTS.items():
        model = {"model_name" if path == "/inference" else "model": "sandbox"}
        ids[kind] = await send(client, path, {**model, **body}, tag)
    ids["completion"] = await send(client, "/v1/completions", {"model": "sandbox", "prompt": "Once", "max_tokens": 4000}, tag)
    tokens: dict[str, Any] = {"model": "sandbox", "token_ids": [1, 2, 3], "sampling_params": {}}
    ids["generate"] = await send(client, "/inference/v1/generate", tokens, tag)
    for id in ids.values():
        await service.wait_for_record(id)
    version = await build(service, name, tags={"ds": tag}, outcome="answered")
    assert version["counts"]["skipped"] == {"not_a_chat": 1}, version
    assert version["counts"]["formats"] == {"chat": 5, "completion": 1}
    lines = await export(service, name)
    assert len(lines) == 5
    for line in lines:
        check_chat_line(line)
    assert [line["messages"][0]["content"] for line in lines].count("Be brief.") == 4
    assert [line.get("tools") for line in lines].count([TOOL]) == 1
    for line in await export(service, name, format="completion"):
        check_completion_line(line)
        assert line["prompt"] == "Once"
    async with service.admin_client() as admin:
        left_out = (await admin.get(f"{DATASETS}/{name}/versions/1/rows", params={"left_out_of": "chat"})).json()["data"]
        assert [(row["inference_id"], row["left_out_of"]["chat"]) for row in left_out] == [
            (ids["completion"], "it is a prompt to continue, not a chat")
        ]
        skips = (await admin.get(f"{DATASETS}/{name}/versions/1/skips")).json()["data"]
        assert skips == [{"inference_id": ids["generate"], "reason": "not_a_chat", "detail": "vllm_generate"}]
        shown = (await admin.get(f"{DATASETS}/{name}/versions/1/rows/{left_out[0]['number']}")).json()
        assert (shown["request"], shown["content_hidden"]) == ({"prompt": "Once"}, False)


async def test_preference_pairs_of_demonstrations_and_functions_as_they_were_rendered(service: Service, client: httpx2.AsyncClient):
    tag, name = unique(), unique()
    body = {"model": "ds-answer", "messages": [{"role": "user", "content": "Hi"}], "narthex::input": {"system": {"name": "Ada"}}}
    id = await send(client, "/v1/chat/completions", body, tag)
    other = await send(client, "/v1/chat/completions", body, tag)
    for sent in (
        {"metric": "demonstration", "inference_id": id, "value": "Hello, Ada."},
        {"metric": "ds-helpful", "inference_id": id, "value": True},
        {"metric": "ds-helpful", "inference_id": other, "value": False},
    ):
        assert (await client.post("/v1/feedback", json=sent)).status_code == 201

    async def is_stored() -> bool:
        rows = await fetch(database_url(service), "SELECT count(*) AS n FROM feedback WHERE target_id = any($1::uuid[])", [id, other])
        return rows[0]["n"] == 3

    for each in (id, other):
        await service.wait_for_record(each)
    await wait_until(is_stored)
    conditions = [{"metric": "ds-helpful", "value": True}]
    version = await build(service, name, function="ds-answer", tags={"ds": tag}, feedback=conditions, output="demonstration")
    assert (version["rows"], version["counts"]["formats"]) == (1, {"chat": 1, "preference": 1}), version
    [line] = await export(service, name, format="preference")
    check_preference_line(line)
    assert line == {
        "input": {"messages": [{"role": "system", "content": "Answer Ada briefly."}, {"role": "user", "content": "Hi"}]},
        "preferred_output": [{"role": "assistant", "content": "Hello, Ada."}],
        "non_preferred_output": [{"role": "assistant", "content": "Hello."}],
    }
    [chosen] = await export(service, name)
    check_chat_line(chosen)
    assert chosen["messages"][-1] == {"role": "assistant", "content": "Hello, Ada."}


async def test_masked_content_stays_masked_and_what_is_not_kept_is_refused(service: Service):
    keys = {team: service.run("keys", "create", "--team", team, "--quiet").stdout.strip() for team in ("ds-masked", "ds-private")}
    tag, name = unique(), unique()
    body = {"model": "ds-model", "messages": [{"role": "user", "content": "I am ann@example.com"}]}
    async with service.keyless_client() as client:
        for key in keys.values():
            id = await send(client, "/v1/chat/completions", body, tag, authorization=f"Bearer {key}")
            await service.wait_for_record(id)
    version = await build(service, name, tags={"ds": tag})
    assert (version["rows"], version["counts"]["skipped"]) == (1, {"not_kept": 1}), version
    [line] = await export(service, name)
    assert line["messages"][0]["content"] == "I am [masked: email]"
    async with service.admin_client() as admin:
        selection = {"tags": {"ds": tag}, "team": "ds-private"}
        refused = await admin.post(f"{DATASETS}/{name}/versions", json={"selection": selection})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "selection")
        assert "content: none" in refused.json()["error"]["message"]


async def test_bad_input_is_refused_with_the_reason(service: Service, client: httpx2.AsyncClient):
    tag, name = unique(), unique()
    await service.wait_for_record(
        await send(client, "/v1/chat/completions", {"model": "ds-model", "messages": [{"role": "user", "content": "Hi"}]}, tag)
    )
    await build(service, name, tags={"ds": tag})
    async with service.admin_client() as admin:
        for path, body, status, text in (
            ("", {"name": name}, 409, "There is a dataset"),
            ("", {"name": " "}, 400, "printable"),
            ("", {"name": unique(), "team": "nobody"}, 400, "no team"),
            ("", {"name": unique(), "selection": {"model": unique()}}, 400, "No inference matches"),
            ("", {"name": unique(), "selection": {"end_user": "ann"}}, 400, "Unknown field"),
            (f"/{name}/versions", {"selection": {"since": "yesterday"}}, 400, "ISO 8601"),
            (f"/{name}/versions", {"selection": {"sample": 0}}, 400, "sample"),
            (f"/{name}/versions", {"selection": {"feedback": [{"metric": "unknown", "value": True}]}}, 400, "no metric"),
            (f"/{unique()}/versions", {}, 404, "no such dataset"),
            (f"/{name}/versions/1/cancel", None, 409, "is complete"),
            (f"/{name}/versions/7/cancel", None, 404, "no such version"),
        ):
            refused = await admin.post(DATASETS + path, json=body)
            assert (refused.status_code, text in refused.json()["error"]["message"]) == (status, True), refused.text
        assert (await admin.get(f"{DATASETS}/{name}/versions/1/export", params={"format": "csv"})).status_code == 400
        assert (await admin.get(f"{DATASETS}/{name}/versions/9/export")).status_code == 404
        gone = await admin.delete(f"{DATASETS}/{name}/versions/1")
        assert (gone.status_code, gone.json()["status"]) == (200, "deleted")
        assert (await admin.get(f"{DATASETS}/{name}/versions/1/export")).status_code == 409
        assert (await admin.delete(f"{DATASETS}/{name}")).status_code == 428
        assert (await admin.delete(f"{DATASETS}/{name}", headers={"if-match": "*"})).status_code == 200
        assert (await admin.get(f"{DATASETS}/{name}")).status_code == 404
        again = await admin.post(DATASETS, json={"name": name})
        assert (again.status_code, again.json()["versions"]) == (201, 0), "its name is free"


async def test_commands_create_show_export_and_delete(service: Service, client: httpx2.AsyncClient, tmp_path: Any):
    tag, name = unique(), unique()
    body = {"model": "ds-model", "messages": [{"role": "user", "content": "Hi"}]}
    for id in [await send(client, "/v1/chat/completions", body, tag) for _ in range(12)]:
        await service.wait_for_record(id)
    made = service.run("datasets", "create", name, "--tag", f"ds={tag}", "--validation", "0.4", "--description", "A test", "--json")
    assert made.returncode == 0, made.stderr
    version = json.loads(made.stdout)
    assert (version["status"], version["rows"], sum(version["counts"]["splits"].values())) == ("complete", 12, 12)
    taken = service.run("datasets", "create", name, "--tag", f"ds={tag}")
    assert taken.returncode == 1 and "There is a dataset" in taken.stderr
    empty = service.run("datasets", "select", name, "--model", unique())
    assert empty.returncode == 1 and "No inference matches" in empty.stderr
    sampled = service.run("datasets", "select", name, "--tag", f"ds={tag}", "--max-rows", "5")
    assert sampled.returncode == 0 and f"{name} version 2: complete, 5 rows" in sampled.stdout, sampled.stderr
    for wrong, text in (
        (("--feedback", "ds-helpful=true") * 11, "a list of length <= 10 at --feedback"),
        (("--feedback", "score>=nan"), "'score>=nan' is no condition"),
        (("--sample", "nan"), "'nan' is not a finite number"),
        (("--validation", "nan"), "'nan' is not a finite number"),
    ):
        refused = service.run("datasets", "select", name, "--tag", f"ds={tag}", *wrong)
        assert refused.returncode == 2 and text in refused.stderr, refused.stderr
    for number in ("0", "99999999999"):
        refused = service.run("datasets", "show", name, "--version", number)
        assert refused.returncode == 2 and "is not in the range" in refused.stderr, refused.stderr
    long = service.run("datasets", "create", unique(), "--tag", f"ds={tag}", "--description", "x" * 2001)
    assert long.returncode == 2 and "length <= 2000 at --description" in long.stderr, long.stderr
    assert name in service.run("datasets", "list").stdout
    assert len(service.run("datasets", "versions", name).stdout.splitlines()) == 3
    assert "splits: " in service.run("datasets", "show", name, "--version", "1").stdout
    parts = [service.run("datasets", "export", name, "--version", "1", "--split", split) for split in ("train", "validation")]
    assert sum(len(part.stdout.splitlines()) for part in parts) == 12
    assert len(service.run("datasets", "export", name).stdout.splitlines()) == 5, "the newest complete version"
    if can_write():
        parquet: Any = importlib.import_module("pyarrow.parquet")
        path = tmp_path / "rows.parquet"
        done = service.run("datasets", "export", name, "--version", "1", "--format", "parquet", "--file", str(path))
        assert done.returncode == 0, done.stderr
        rows = parquet.read_table(io.BytesIO(path.read_bytes())).to_pylist()
        assert [json.loads(row["messages"]) for row in rows] == [[{"role": "user", "content": "Hi"}]] * 12
        assert json.loads(rows[0]["response"])["content"] == "Hello." and rows[0]["received_at"].tzinfo is not None
    async with service.admin_client() as admin:
        events = (await admin.get("/admin/v1/audit", params={"resource": "dataset", "name": name})).json()["data"]
    expected = ["create", "select", "select", *["export"] * (4 if can_write() else 3)]
    assert [event["action"] for event in events][::-1] == expected
    assert all(tag not in json.dumps(event) for event in events), "values of tags may name somebody"
    assert service.run("datasets", "delete", name, "--version", "2", "--yes").returncode == 0
    assert service.run("datasets", "delete", name, "--yes").returncode == 0
    assert name not in service.run("datasets", "list").stdout
