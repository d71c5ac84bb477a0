"""Adapter name -> what its engine can be told to do."""

from collections.abc import Mapping

from providers.errors import NotOffered
from providers.operations import llamacpp, lmdeploy, ollama, sglang, vllm
from providers.operations.operation import Offer, Operation
from providers.operations.smaller import SMALLER

OFFERS: Mapping[str, Offer] = {
    "vllm": vllm.OFFER,
    "sglang": sglang.OFFER,
    "lmdeploy": lmdeploy.OFFER,
    "llamacpp": llamacpp.OFFER,
    "ollama": ollama.OFFER,
    **SMALLER,
}

NAMES: frozenset[str] = frozenset(name for offer in OFFERS.values() for name in (*offer.operations, *offer.without))


def find(engine: str, name: str) -> Operation:
    """Raises NotOffered, with the reason, where this engine has no such call."""
    offer = OFFERS.get(engine)
    if offer is None:
        raise NotOffered(f"`{name}` is for engines that we run; {engine} is none that is known to us.")
    operation = offer.operations.get(name)
    if operation is None:
        why = offer.without.get(name, "it has no such call.")
        has = ", ".join(sorted(offer.operations)) or "nothing"
        raise NotOffered(f"{engine} cannot be told to `{name}`: {why} It can be told to: {has}.")
    return operation
