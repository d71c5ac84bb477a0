"""LoRA adapters: the name under which an engine serves one, and the check that it is loaded."""

from collections.abc import Mapping
from typing import Protocol

from providers.canonical.errors import UpstreamNotFound
from providers.canonical.raw_json import Body

LoadedAdapters = Mapping[str, int | None] | None
"""The LoRA adapters of an engine by name, with their ids where the engine numbers them. None: not known."""


class AdapterNaming(Protocol):
    """How one engine selects a LoRA adapter."""

    def __call__(self, model: str, lora: str, body: Body, loaded: LoadedAdapters, /) -> str:
        """Returns what the request names as its model, and writes into `body` what else selects the adapter.

        Raises Unsupported for a request in which the engine takes no adapter, and Unreachable where the engine is not known well enough.
        """
        ...


def name_adapter_as_model(model: str, lora: str, body: Body, loaded: LoadedAdapters) -> str:
    """The adapter is a model of its own name: vLLM and LMDeploy. TGI takes any name but its model's for an adapter."""
    return lora


def check_loaded(lora: str, loaded: LoadedAdapters, provider_name: str) -> None:
    """Raises UpstreamNotFound for an adapter that is known not to be loaded, before any engine is called.

    The message does not list the loaded ones: callers read it, and adapters may be named after other customers.
    """
    if loaded is not None and lora not in loaded:
        raise UpstreamNotFound(
            f"{provider_name} has no LoRA adapter {lora!r:.100}. An administrator can load it.", upstream_status=404, param="model"
        )
