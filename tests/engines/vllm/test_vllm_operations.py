"""Operations of a real vLLM through the gateway, and LoRA adapters as models: loaded, used and unloaded."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from tests.engines.install import VENV
from tests.engines.running_narthex import MODEL, Gateway, engine_configuration, running_narthex
from tests.engines.tiny_lora import RANK, write_tiny_lora
from tests.engines.vllm.running_vllm import Engine, running_vllm

pytestmark = pytest.mark.engines

# With a slash, like the names of adapters from a hub.
ADAPTER = "acme/sql"
SHORT_CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 12, "temperature": 0, "ignore_eos": True}


class GatewayClients(NamedTuple):
    """HTTP clients of one gateway: a caller's and an administrator's."""

    caller: httpx2.Client
    admin: httpx2.Client

    def chat(self, model: str) -> httpx2.Response:
        return self.caller.post("/v1/chat/completions", json={"model": model, **SHORT_CHAT})

    def post_operation(self, operation: str, **arguments: Any) -> httpx2.Response:
        return self.admin.post(f"/admin/v1/models/{MODEL}/engine/{operation}", json=arguments)

    def operation_answer(self, operation: str, **arguments: Any) -> Any:
        answer = self.post_operation(operation, **arguments)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"][0]["response"]


@pytest.fixture(scope="module")
def lora_vllm(narthex: Gateway) -> Iterator[Engine]:
    """A vLLM with all operations enabled; depends on `narthex` so that it starts after the other engine has."""
    with running_vllm(
        VENV,
        switches=("--enable-lora", "--max-lora-rank", str(RANK)),
        environment={"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1", "VLLM_SERVER_DEV_MODE": "1"},
    ) as engine:
        yield engine


@pytest.fixture(scope="module")
def gateway(lora_vllm: Engine) -> Iterator[GatewayClients]:
    """Clients of a gateway with the models `tiny`, and `sql`, which is `tiny` with the LoRA adapter."""
    lora = f'[models.sql]\ntargets = [{{ provider = "{MODEL}", model = "{lora_vllm.model}", lora = "{ADAPTER}" }}]\n'
    with running_narthex(engine_configuration("vllm", lora_vllm) + lora, (MODEL, "sql")) as running:
        root = running.base_url.removesuffix("/v1")
        with (
            httpx2.Client(base_url=root, headers={"authorization": f"Bearer {running.key}"}, timeout=60) as caller,
            httpx2.Client(base_url=root, headers={"authorization": f"Bearer {running.admin_key}"}, timeout=60) as admin,
        ):
            yield GatewayClients(caller, admin)


def test_lora_adapter_serves_as_a_model_while_it_is_loaded(gateway: GatewayClients, tmp_path: Path):
    write_tiny_lora(tmp_path / "sql", seed=7)
    before = gateway.chat("sql")
    assert before.status_code == 404
    assert ADAPTER in before.json()["error"]["message"]

    assert "added" in gateway.operation_answer("load_lora", lora_name=ADAPTER, lora_path=str(tmp_path / "sql"))
    base, tuned = gateway.chat(MODEL), gateway.chat("sql")
    assert (base.status_code, tuned.status_code) == (200, 200), tuned.text
    assert tuned.json()["model"] == "sql"
    assert tuned.json()["choices"][0]["message"]["content"] != base.json()["choices"][0]["message"]["content"]
    again = gateway.post_operation("load_lora", lora_name=ADAPTER, lora_path=str(tmp_path / "sql"))
    assert again.status_code == 400
    assert "already been loaded" in again.json()["error"]["message"]

    assert "removed" in gateway.operation_answer("unload_lora", lora_name=ADAPTER)
    assert gateway.chat("sql").status_code == 404
    absent = gateway.post_operation("unload_lora", lora_name=ADAPTER)
    assert absent.status_code == 404
    assert "cannot be found" in absent.json()["error"]["message"]


def test_loading_a_missing_lora_adapter_is_a_404(gateway: GatewayClients, tmp_path: Path):
    answer = gateway.post_operation("load_lora", lora_name="none", lora_path=str(tmp_path / "none"))
    assert answer.status_code == 404
    assert "No adapter found" in answer.json()["error"]["message"]


def test_sleep_wake_flush_cache_and_abort_work_through_the_gateway(gateway: GatewayClients):
    assert gateway.operation_answer("is_sleeping") == {"is_sleeping": False}
    gateway.operation_answer("sleep", level=1)
    assert gateway.operation_answer("is_sleeping") == {"is_sleeping": True}
    gateway.operation_answer("wake")
    assert gateway.operation_answer("is_sleeping") == {"is_sleeping": False}
    gateway.operation_answer("flush_cache")
    gateway.operation_answer("abort", abort_all=True)
    assert gateway.chat(MODEL).status_code == 200


def test_native_generate_and_metrics_are_passed_through(gateway: GatewayClients):
    answer = gateway.operation_answer(
        "generate", token_ids=[40, 41], sampling_params={"max_tokens": 5, "temperature": 0, "ignore_eos": True}
    )
    assert len(answer["choices"][0]["token_ids"]) == 5
    assert "vllm:num_requests_running" in gateway.operation_answer("metrics")


def test_operation_vllm_was_not_started_for_is_a_501_naming_the_needed_flag(narthex: Gateway):
    with httpx2.Client(
        base_url=narthex.base_url.removesuffix("/v1"), headers={"authorization": f"Bearer {narthex.admin_key}"}, timeout=60
    ) as admin:
        for operation, arguments, needs in (
            ("sleep", {}, "VLLM_SERVER_DEV_MODE"),
            ("flush_cache", {}, "VLLM_SERVER_DEV_MODE"),
            ("load_lora", {"lora_name": "a", "lora_path": "/a"}, "VLLM_ALLOW_RUNTIME_LORA_UPDATING"),
            ("terminate", {"confirm": True}, "end its process"),
        ):
            answer = admin.post(f"/admin/v1/models/{MODEL}/engine/{operation}", json=arguments)
            assert answer.status_code == 501, answer.text
            assert needs in answer.json()["error"]["message"]
