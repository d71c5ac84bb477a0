"""Exports as Parquet: the same inferences as the list has, and a clear error without the extra."""

import importlib
import io
import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.store.formats import parquet_lines
from app.store.formats.parquet_lines import ParquetFile, can_write
from tests.support.processes.service import Service

EXPORT = "/admin/v1/inferences/export"
needs_extra = pytest.mark.skipif(not can_write(), reason="narthex[parquet] is not installed")


async def send(client: httpx2.AsyncClient, service: Service, run: str) -> dict[str, Any]:
    body = {"model": "sandbox", "messages": [{"role": "user", "content": "Hello!"}], "metadata": {"run": run}, "max_tokens": 5}
    answer = await client.post("/v1/chat/completions", json=body)
    return await service.wait_for_record(answer.headers["x-narthex-inference-id"])


@needs_extra
async def test_export_and_command_have_what_the_list_has(service: Service, client: httpx2.AsyncClient, tmp_path: Path):
    parquet: Any = importlib.import_module("pyarrow.parquet")
    run = uuid.uuid4().hex
    records = [await send(client, service, run) for _ in range(3)][::-1]
    async with service.client(headers={"authorization": f"Bearer {service.admin_key}"}) as admin:
        answer = await admin.get(EXPORT, params={"tag": f"run={run}", "format": "parquet"})
    assert answer.headers["content-type"] == "application/vnd.apache.parquet"
    exported = parquet.read_table(io.BytesIO(answer.content)).to_pylist()
    assert [row["id"] for row in exported] == [record["id"] for record in records]
    for row, record in zip(exported, records, strict=True):
        assert json.loads(row["tags"]) == record["tags"] == {"run": run} and row["received_at"].isoformat() == record["received_at"]
        same = ("team", "model", "status", "input_tokens", "output_tokens", "duration_us", "streamed", "dropped", "cost_microusd")
        assert [row[name] for name in same] == [record[name] for name in same]
    done = service.run("inferences", "--tag", f"run={run}", "--parquet", str(tmp_path / "found.parquet"))
    assert done.returncode == 0, done.stderr
    assert parquet.read_table(tmp_path / "found.parquet").to_pylist() == exported


@needs_extra
async def test_row_groups_are_bounded_and_sent_as_they_are_complete(
    service: Service, client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    parquet: Any = importlib.import_module("pyarrow.parquet")
    record = await send(client, service, uuid.uuid4().hex)
    monkeypatch.setattr(parquet_lines, "_GROUP_ROWS", 10)
    file = ParquetFile()
    pieces = [file.write([record] * 7) for _ in range(5)] + [file.finish()]
    assert len(pieces[1]) > 1000, "before the file is complete"
    read = parquet.ParquetFile(io.BytesIO(b"".join(pieces)))
    assert [read.metadata.row_group(at).num_rows for at in range(read.num_row_groups)] == [10, 10, 10, 5]


async def test_without_the_extra_an_export_is_refused_and_the_error_names_it(service: Service):
    if can_write():
        pytest.skip("narthex[parquet] is installed")
    async with service.admin_client() as admin:
        refused = await admin.get(EXPORT, params={"format": "parquet"})
    assert refused.status_code == 400 and "narthex[parquet]" in refused.json()["error"]["message"]


def test_without_the_extra_the_command_names_it(service: Service):
    command = [sys.executable, "-c", _WITHOUT_PYARROW, "inferences", "--parquet", "none.parquet"]
    done = subprocess.run(command, env={**os.environ, **service.environment}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "narthex[parquet]" in done.stderr


_WITHOUT_PYARROW = """
import importlib.util
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *package: None if name == "pyarrow" else find_spec(name, *package)
from app.cli import main
main()
"""
