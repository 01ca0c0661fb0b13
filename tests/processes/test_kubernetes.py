"""The manifests of deploy/kubernetes are valid, and name what exists."""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

import httpx2
import kubernetes_validate
import pytest
from django.conf import settings
from ruamel.yaml import YAML

from config.config import SERVER
from config.loading import loader
from config.loading.secrets_file import NAMES
from tasks.config import TASKS

FOLDER = settings.BASE_DIR / "deploy/kubernetes"
KUBERNETES = "1.33"
"""The oldest version that is supported today."""
STOP_SECONDS = 12
"""What a stop takes beside the drain: docs/running.md."""
LOADER = YAML(typ="safe", pure=True)
KUSTOMIZATION = LOADER.load(FOLDER / "kustomization.yaml")
MANIFESTS: list[dict[str, Any]] = list(
    chain.from_iterable(
        LOADER.load_all(FOLDER / name) for name in KUSTOMIZATION["resources"]
    )
)
BY_NAME = {(each["kind"], each["metadata"]["name"]): each for each in MANIFESTS}
WORKLOADS = [each for each in MANIFESTS if each["kind"] in ("Deployment", "Job")]
KNOWN_VARIABLES = {*settings.COULISSE_VARIABLES, "DATABASE_URL", "REDIS_URL"}


def pod(manifest: dict[str, Any]) -> dict[str, Any]:
    return manifest["spec"]["template"]["spec"]


def container(manifest: dict[str, Any]) -> dict[str, Any]:
    (only,) = pod(manifest)["containers"]
    return only


def named(manifest: dict[str, Any]) -> str:
    return f"{manifest['kind']}-{manifest['metadata']['name']}"


@pytest.mark.parametrize("manifest", MANIFESTS, ids=named)
def test_manifest_is_valid(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_every_manifest_is_in_the_kustomization() -> None:
    files = {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    assert {*KUSTOMIZATION["resources"]} == files
    assert [image["name"] for image in KUSTOMIZATION["images"]] == ["coulisse"]
    assert {container(each)["image"] for each in WORKLOADS} == {"coulisse"}


@pytest.mark.parametrize("manifest", WORKLOADS, ids=named)
def test_pods_need_no_rights(manifest: dict[str, Any]) -> None:
    spec, only = pod(manifest), container(manifest)
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["runAsUser"] == 1000
    assert spec["automountServiceAccountToken"] is False
    assert only["securityContext"]["readOnlyRootFilesystem"]
    assert only["securityContext"]["allowPrivilegeEscalation"] is False
    mounted = {mount["name"] for mount in only["volumeMounts"]}
    assert mounted == {volume["name"] for volume in spec["volumes"]}
    assert only["resources"].keys() == {"requests", "limits"}


@pytest.mark.parametrize("manifest", WORKLOADS, ids=named)
def test_configuration_exists_and_is_read(manifest: dict[str, Any]) -> None:
    only = container(manifest)
    for source in only["envFrom"]:
        if reference := source.get("configMapRef"):
            assert ("ConfigMap", reference["name"]) in BY_NAME
    names = {variable["name"] for variable in only["env"]}
    environment = BY_NAME["ConfigMap", "coulisse-environment"]["data"]
    assert names | environment.keys() <= KNOWN_VARIABLES
    paths = {mount["mountPath"] for mount in only["volumeMounts"]}
    assert paths == {"/config", environment["COULISSE_STATE_DIR"], "/tmp"}
    values = {each["name"]: each.get("value") for each in only["env"]}
    assert values["COULISSE_CONFIG"] == "/config/coulisse.yaml"


def test_secrets_have_all_that_processes_share() -> None:
    lines = (FOLDER / "secret.example.env").read_text().splitlines()
    names = {line.split("=")[0] for line in lines if not line.startswith("#")}
    assert names == {*NAMES, "DATABASE_URL", "REDIS_URL", "OPENAI_API_KEY"}


@pytest.fixture
def yaml(monkeypatch, tmp_path):
    """The configuration of the ConfigMap."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    file = tmp_path / "coulisse.yaml"
    file.write_text(BY_NAME["ConfigMap", "coulisse-yaml"]["data"]["coulisse.yaml"])
    return loader.load_file(file)


def test_grace_periods_cover_the_drains(yaml) -> None:
    drains = {
        "web": yaml.get(SERVER).lame_duck_seconds + yaml.get(SERVER).drain_seconds,
        "worker": yaml.get(TASKS).drain_seconds,
    }
    for name, drain in drains.items():
        manifest = BY_NAME["Deployment", name]
        hook = container(manifest).get("lifecycle", {}).get("preStop")
        seconds = int(hook["exec"]["command"][1]) if hook else 0
        grace = pod(manifest)["terminationGracePeriodSeconds"]
        assert grace >= drain + seconds + STOP_SECONDS


@pytest.mark.database
def test_probes_ask_addresses_that_exist(server: str) -> None:
    web = container(BY_NAME["Deployment", "web"])
    probes = {
        name: web[f"{name}Probe"] for name in ("startup", "readiness", "liveness")
    }
    paths = {name: probe["httpGet"]["path"] for name, probe in probes.items()}
    assert paths["readiness"] == "/health/ready"
    assert paths["startup"] == paths["liveness"] == "/health/live"
    for path in paths.values():
        assert httpx2.get(f"{server}{path}").status_code == 200
    ports = {port["name"] for port in web["ports"]}
    assert {probe["httpGet"]["port"] for probe in probes.values()} == ports
    (service,) = BY_NAME["Service", "web"]["spec"]["ports"]
    assert service["targetPort"] in ports


def test_labels_select_the_pods() -> None:
    for manifest in WORKLOADS:
        if manifest["kind"] == "Deployment":
            labels = manifest["spec"]["template"]["metadata"]["labels"]
            assert manifest["spec"]["selector"]["matchLabels"] == labels
    selected = BY_NAME["Service", "web"]["spec"]["selector"]
    budget = BY_NAME["PodDisruptionBudget", "web"]["spec"]["selector"]["matchLabels"]
    web = BY_NAME["Deployment", "web"]["spec"]["selector"]["matchLabels"]
    assert selected == budget == web


def metric_names() -> Iterator[tuple[str, str]]:
    for manifest in MANIFESTS:
        if manifest["kind"] == "HorizontalPodAutoscaler":
            target = manifest["spec"]["scaleTargetRef"]["name"]
            assert ("Deployment", target) in BY_NAME
            # The autoscaler sets the number.
            assert "replicas" not in BY_NAME["Deployment", target]["spec"]
            for metric in manifest["spec"]["metrics"]:
                yield target, metric[metric["type"].lower()]["metric"]["name"]


def test_autoscalers_read_metrics_that_exist() -> None:
    documented = (settings.BASE_DIR / "docs/metrics.md").read_text()
    existing = {*re.findall(r"(?m)^\| `(coulisse_\w+)`", documented)}
    assert dict(metric_names()).keys() == {"web", "worker"}
    assert {name for _, name in metric_names()} <= existing
