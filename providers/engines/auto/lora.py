"""LoRA adapters of an engine that is not identified yet."""

from providers.adapters.lora import LoadedAdapters
from providers.canonical.errors import Unreachable
from providers.canonical.raw_json import Body


def refuse_unknown_engine(model: str, lora: str, body: Body, loaded: LoadedAdapters) -> str:
    """Raises Unreachable: engines select adapters differently."""
    raise Unreachable(f"How the engine selects the LoRA adapter {lora!r:.100} is not known yet: it has not reported what it is.")
