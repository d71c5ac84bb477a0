"""The Helm chart, rendered for five sets of values: what Kubernetes would take, and the usual mistakes of charts that it must not make."""

import json
import re
import subprocess
from collections.abc import Iterable
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.settings import Settings, environment_name

ROOT = Path(__file__).parents[2]
CHART = ROOT / "infra" / "helm" / "narthex"
VALUES = Path(__file__).parent / "chart_values"
TOOLS = ROOT / ".venv-deploy" / "bin"
SETS = sorted(path.stem for path in VALUES.glob("*.yaml"))
RENDER_TIMEOUT_S = 300
# The first with sidecars that are on by default, and the newest whose schemas there are.
KUBERNETES_VERSIONS = ("1.29.0", "1.37.0")

Manifest = dict[str, Any]


def render(values: dict[str, Any]) -> dict[str, Any]:
    command = [TOOLS / "python", Path(__file__).with_name("render_chart.py"), CHART]
    done = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=False, timeout=RENDER_TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@cache
def rendered(name: str) -> tuple[tuple[Manifest, ...], tuple[str, ...], str]:
    """The manifests, what the linter finds, and the text of all."""
    answer = render(yaml.safe_load((VALUES / f"{name}.yaml").read_text()))
    assert "error" not in answer, answer
    texts = [text for path, text in sorted(answer["manifests"].items()) if path.endswith(".yaml")]
    manifests = [each for text in texts for each in yaml.safe_load_all(text) if each is not None]
    return tuple(manifests), tuple(answer["findings"]), "\n---\n".join(texts)


def of_kind(name: str, kind: str) -> list[Manifest]:
    return [each for each in rendered(name)[0] if each["kind"] == kind]


def gateway(name: str) -> Manifest:
    [statefulset] = of_kind(name, "StatefulSet")
    return statefulset


def pods(name: str) -> Iterable[Manifest]:
    """The specs of all pods."""
    return [each["spec"]["template"]["spec"] for each in rendered(name)[0] if each["kind"] in ("StatefulSet", "Job")]


def containers(pod: Manifest) -> list[Manifest]:
    return [*pod.get("initContainers", ()), *pod["containers"]]


def test_there_are_five_sets_of_values():
    assert len(SETS) == 5


@pytest.mark.parametrize("name", SETS)
def test_linter_finds_nothing(name: str):
    assert rendered(name)[1] == ()


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
def test_manifests_are_valid_in_strict_mode(name: str, version: str, tmp_path: Path):
    own = [each for each in rendered(name)[0] if each["kind"] != "ServiceMonitor"]  # of the Prometheus operator
    assert len(own) >= 4
    file = tmp_path / "manifests.yaml"
    file.write_text(yaml.safe_dump_all(own))
    command = [TOOLS / "kubernetes-validate", "--strict", "-k", version, file]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=RENDER_TIMEOUT_S)
    assert done.returncode == 0 and "WARN" not in done.stdout + done.stderr, done.stdout + done.stderr


@pytest.mark.parametrize("name", SETS)
def test_rendering_twice_gives_the_same_and_no_secret_is_made(name: str):
    first = rendered(name)[2]
    rendered.cache_clear()
    assert rendered(name)[2] == first and of_kind(name, "Secret") == []


@pytest.mark.parametrize("name", SETS)
def test_pods_run_restricted(name: str):
    """Every pod has the settings that the `restricted` level of Pod Security demands."""
    for pod in pods(name):
        assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
        assert pod["automountServiceAccountToken"] is False
        for container in containers(pod):
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] and not context["allowPrivilegeEscalation"]
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert {"requests", "limits"} == container["resources"].keys()
            mounted = {each["name"] for each in container["volumeMounts"]}
            claims = {each["metadata"]["name"] for each in gateway(name)["spec"].get("volumeClaimTemplates", ())}
            assert mounted <= {each["name"] for each in pod["volumes"]} | claims


@pytest.mark.parametrize("name", SETS)
def test_every_container_has_the_same_settings_secrets_and_files(name: str):
    """A migration that lacks one fails, or migrates another database."""
    everything = [(each["image"], each["env"], each.get("envFrom"), each["volumeMounts"]) for pod in pods(name) for each in containers(pod)]
    assert len(everything) >= 2 and all(each == everything[0] for each in everything)
    known = {environment_name(each) for each in fields(Settings)}
    named = {each["name"] for each in everything[0][1]}
    assert named - known <= {"OPENAI_API_KEY"}
    secrets = {"DATABASE_URL", "REDIS_URL", "NARTHEX_SECRET_KEY"} & named
    assert all("secretKeyRef" in each["valueFrom"] for each in everything[0][1] if each["name"] in secrets)


@pytest.mark.parametrize("name", SETS)
def test_writer_ends_after_the_gateway_and_there_is_time_for_both(name: str):
    pod = gateway(name)["spec"]["template"]["spec"]
    [writer], [serving] = pod["initContainers"], pod["containers"]
    assert (writer["args"], writer["restartPolicy"], serving["args"]) == (["writer"], "Always", ["serve"])
    environment = {each["name"]: each.get("value") for each in serving["env"]}
    delay_s = int(serving["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > delay_s + 2 * float(environment["NARTHEX_DRAIN_TIMEOUT_S"])
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert serving[probe]["httpGet"]["scheme"] == ("HTTPS" if "NARTHEX_TLS_CERT" in environment else "HTTP")


@pytest.mark.parametrize("name", SETS)
def test_migration_comes_first_and_needs_nothing_that_comes_later(name: str):
    jobs = of_kind(name, "Job")
    assert len(jobs) == (name != "small")
    for job in jobs:
        assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
        account = job["spec"]["template"]["spec"]["serviceAccountName"]
        assert account not in {each["metadata"]["name"] for each in of_kind(name, "ServiceAccount")}
        assert "persistentVolumeClaim" not in json.dumps(job)


@pytest.mark.parametrize("name", SETS)
def test_replicas_are_set_by_one_of_chart_and_autoscaler(name: str):
    scalers = of_kind(name, "HorizontalPodAutoscaler")
    assert ("replicas" in gateway(name)["spec"]) != bool(scalers)
    for scaler in scalers:
        assert scaler["spec"]["scaleTargetRef"]["name"] == gateway(name)["metadata"]["name"]


@pytest.mark.parametrize("name", SETS)
def test_services_policies_and_budgets_choose_the_gateways_pods(name: str):
    template = gateway(name)["spec"]["template"]
    labels = template["metadata"]["labels"].items()
    [job] = of_kind(name, "Job") or [None]
    selectors = [each["spec"]["selector"] for each in of_kind(name, "Service")]
    selectors += [each["spec"]["selector"]["matchLabels"] for each in of_kind(name, "PodDisruptionBudget")]
    selectors += [each["spec"]["podSelector"]["matchLabels"] for each in of_kind(name, "NetworkPolicy")]
    assert len(selectors) >= 2 and all(selector.items() <= labels for selector in selectors)
    if job is not None:
        assert not any(each.items() <= job["spec"]["template"]["metadata"]["labels"].items() for each in selectors)
    ports = {port["name"] for each in template["spec"]["containers"] for port in each["ports"]}
    assert all(port["targetPort"] in ports for each in of_kind(name, "Service") for port in each["spec"]["ports"])
    assert gateway(name)["spec"]["serviceName"] in {each["metadata"]["name"] for each in of_kind(name, "Service")}
    for monitor in of_kind(name, "ServiceMonitor"):
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        [service] = [each for each in of_kind(name, "Service") if wanted <= each["metadata"]["labels"].items()]
        assert monitor["spec"]["endpoints"][0]["port"] in {port["name"] for port in service["spec"]["ports"]}


def test_values_of_a_set_appear_where_they_belong():
    claim = gateway("autoscaled")["spec"]["volumeClaimTemplates"][0]["spec"]
    assert claim["storageClassName"] == "fast" and claim["resources"]["requests"]["storage"] == "50Gi"
    assert containers(next(iter(pods("autoscaled"))))[0]["image"].startswith("registry.example.com/narthex@sha256:")
    assert "emptyDir" in next(each for each in gateway("small")["spec"]["template"]["spec"]["volumes"] if each["name"] == "home")
    [policy] = of_kind("closed", "NetworkPolicy")
    assert [rule["ports"][0]["port"] for rule in policy["spec"]["ingress"]] == ["callers", "admin"]
    assert {each["metadata"]["name"] for each in of_kind("closed", "Service")} == {
        "release-narthex",
        "release-narthex-pods",
        "release-narthex-admin",
    }
    [ingress] = of_kind("ingress", "Ingress")
    assert ingress["spec"]["rules"][0]["host"] == "narthex.example.com" and of_kind("ingress", "ConfigMap")
    assert of_kind("small", "PodDisruptionBudget") == of_kind("small", "NetworkPolicy") == []


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"replicaz": 2}, "replicaz"),
        ({"replicas": 0}, "replicas"),
        ({"database": {"password": "secret"}}, "password"),
        ({"settings": {"NARTHEX_HOME": "/elsewhere"}}, "NARTHEX_HOME"),
        ({"settings": {"NARTHEX_RETRIES": 2}}, "NARTHEX_RETRIES"),
        ({"admin": {"enabled": True, "port": 8787}}, "port"),
        ({"image": {"digest": "latest"}}, "digest"),
        ({"persistence": {"accessModes": ["ReadWriteMany"]}}, "accessModes"),
    ],
)
def test_wrong_values_are_refused_by_name(values: dict[str, Any], named: str):
    assert named in render(values)["error"]


def test_every_value_is_used_documented_and_in_the_schema():
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    templates = "\n".join(path.read_text() for path in (CHART / "templates").iterdir())
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert schema["properties"].keys() - {"global"} == defaults.keys()
    for name, value in defaults.items():
        assert f".Values.{name}" in templates, name
        properties = schema["properties"][name].get("properties")
        if properties is not None:
            assert properties.keys() == value.keys(), name
            assert all(re.search(rf"\.Values\.{name}\.{each}\b", templates) for each in value), name


def test_page_names_values_that_exist():
    page = (ROOT / "docs" / "deploy-kubernetes.md").read_text()
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    named = re.findall(r"`([a-z]\w+(?:\.\w+)+)`", page)
    assert len(named) > 10
    for path in named:
        at: Any = defaults
        for step in path.split("."):
            assert step in at, path
            at = at[step]
