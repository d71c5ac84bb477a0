"""Clients that others' generators make of the OpenAPI document compile without a warning and manage a resource."""

import asyncio
import json
import os
import uuid
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.clients.install import HERE, NODE_MODULES, OPENAPI_GENERATOR, is_installed
from tests.support.processes.service import Service

_LIMIT_S = 300.0
_SCRIPTS = HERE / "scripts"


@pytest.fixture
async def document(service: Service, tmp_path: Path) -> Path:
    missing = [str(folder) for folder in (OPENAPI_GENERATOR, NODE_MODULES) if not is_installed(folder)]
    assert not missing, f"Not installed, or out of date: {', '.join(missing)}. `python -m tests.clients.install` makes them."
    file = tmp_path / "openapi.json"
    async with httpx2.AsyncClient(verify=False) as client:
        file.write_bytes((await client.get(f"{service.url}/openapi.json")).raise_for_status().content)
    return file


async def run(*command: str | Path, folder: Path, **variables: str) -> str:
    """Runs a command, which must end with status 0, and returns what it prints."""
    path = f"{OPENAPI_GENERATOR / 'bin'}{os.pathsep}{os.environ['PATH']}"  # the generator formats its code with ruff
    environment = {**os.environ, "NO_PROXY": "127.0.0.1", **variables, "PATH": path}
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), _LIMIT_S)
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, output.decode()
    return output.decode()


def check_what_it_saw(output: str, prefix: str) -> None:
    seen: dict[str, Any] = json.loads(output.splitlines()[-1])
    names = [f"{prefix}-{number}" for number in range(3)]
    assert seen == {
        "created": [[201, name, 5] for name in names],
        "duplicate": 409,
        "pages": [names[:2], names[2:]],
        "dry_run": ["update"],
        "patched": 7,
        "stale": [412, "precondition_failed"],
        "deleted": [200, 200, 200],
        "missing": [404, "not_found_error"],
    }


async def test_openapi_python_client(service: Service, document: Path, tmp_path: Path) -> None:
    python, generator = OPENAPI_GENERATOR / "bin" / "python", OPENAPI_GENERATOR / "bin" / "openapi-python-client"
    options = ("--meta", "none", "--output-path", "narthex_api", "--config", HERE / "openapi-python-client.yaml")
    generated = await run(generator, "generate", "--path", document, *options, folder=tmp_path)
    assert "warning" not in generated.lower() and "error" not in generated.lower(), generated
    await run(python, "-W", "error", "-m", "compileall", "-q", "narthex_api", folder=tmp_path)
    prefix = f"generated-{uuid.uuid4().hex[:12]}"
    variables = {"BASE_URL": service.url, "ADMIN_KEY": service.admin_key, "PREFIX": prefix, "PYTHONPATH": str(tmp_path)}
    check_what_it_saw(await run(python, _SCRIPTS / "generated_python.py", folder=tmp_path, **variables), prefix)


async def test_openapi_typescript(service: Service, document: Path, tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(NODE_MODULES)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "manage_teams.ts").write_text((_SCRIPTS / "generated_typescript.ts").read_text())
    programs = NODE_MODULES / ".bin"
    # Without the option it makes fields with a default required in requests, too.
    await run(programs / "openapi-typescript", document, "-o", "schema.d.ts", "--default-non-nullable", "false", folder=tmp_path)
    options = ("--strict", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom,dom.iterable")
    await run(programs / "tsc", *options, "manage_teams.ts", folder=tmp_path)
    prefix = f"generated-{uuid.uuid4().hex[:12]}"
    output = await run("node", "manage_teams.js", folder=tmp_path, BASE_URL=service.url, ADMIN_KEY=service.admin_key, PREFIX=prefix)
    check_what_it_saw(output, prefix)
