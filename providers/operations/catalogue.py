"""Adapter name -> what its engine can be told to do."""

from collections.abc import Mapping

from providers.canonical.errors import OperationNotSupported
from providers.engines.llamacpp.operations import LLAMACPP_OPERATIONS
from providers.engines.lmdeploy.operations import LMDEPLOY_OPERATIONS
from providers.engines.ollama.operations import OLLAMA_OPERATIONS
from providers.engines.sglang.operations import SGLANG_OPERATIONS
from providers.engines.vllm.operations import VLLM_OPERATIONS
from providers.operations.operation import EngineOperations, Operation
from providers.operations.small_engines import SMALL_ENGINE_OPERATIONS

ENGINE_OPERATIONS: Mapping[str, EngineOperations] = {
    "vllm": VLLM_OPERATIONS,
    "sglang": SGLANG_OPERATIONS,
    "lmdeploy": LMDEPLOY_OPERATIONS,
    "llamacpp": LLAMACPP_OPERATIONS,
    "ollama": OLLAMA_OPERATIONS,
    **SMALL_ENGINE_OPERATIONS,
}

OPERATION_NAMES: frozenset[str] = frozenset(
    name for offer in ENGINE_OPERATIONS.values() for name in (*offer.operations, *offer.unavailable)
)


def find_operation(engine: str, name: str) -> Operation:
    """Raises NotOffered, with the reason, where this engine has no such call."""
    engine_operations = ENGINE_OPERATIONS.get(engine)
    if engine_operations is None:
        raise OperationNotSupported(f"`{name}` is for engines that we run; {engine} is none that is known to us.")
    operation = engine_operations.operations.get(name)
    if operation is None:
        reason = engine_operations.unavailable.get(name, "it has no such call.")
        available = ", ".join(sorted(engine_operations.operations)) or "nothing"
        raise OperationNotSupported(f"{engine} cannot be told to `{name}`: {reason} It can be told to: {available}.")
    return operation
