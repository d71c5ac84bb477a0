"""The sandbox's models: one generator with different behaviour."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.sandbox.protocol.errors import InvalidRequest, UnknownModel
from app.sandbox.text.tokens import CONTEXT_LENGTH

OWNER = "narthex-sandbox"
CREATED = 1_790_000_000


@dataclass(frozen=True, slots=True)
class Model:
    """A model of the sandbox, and how it misbehaves."""

    id: str
    duration_s: float = 0.0  # how long a response takes
    is_flaky: bool = False  # whether every third request fails
    dies: bool = False  # whether every response is cut in the middle
    embeds: bool = False


MODELS: Mapping[str, Model] = {
    model.id: model
    for model in (
        Model("sandbox"),
        Model("sandbox-slow", duration_s=2.0),
        Model("sandbox-flaky", is_flaky=True),
        Model("sandbox-dies", dies=True),
        Model("sandbox-embed", embeds=True),
    )
}


def find_model(name: str) -> Model:
    model = MODELS.get(name)
    if model is None:
        raise UnknownModel(f"No model {name!r}. The sandbox has: {', '.join(MODELS)}", "model")
    return model


def find_model_for(name: str, *, embeddings: bool) -> Model:
    model = find_model(name)
    if model.embeds and not embeddings:
        raise InvalidRequest(f"model: {name!r} only embeds; POST /v1/embeddings", "model")
    if embeddings and not model.embeds:
        raise InvalidRequest(f"model: {name!r} does not embed; use 'sandbox-embed'", "model")
    return model


def write_model(model: Model) -> dict[str, Any]:
    return {"id": model.id, "object": "model", "created": CREATED, "owned_by": OWNER, "max_model_len": CONTEXT_LENGTH}
