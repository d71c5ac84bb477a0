"""Probe of llama-cpp-python's server."""

from providers.adapters.probe import MODELS_PATH, EngineProbe, ProbeResponses, model_cards


def _is_llamacpp_python(responses: ProbeResponses) -> bool:
    """Its models are owned by "me" and have `permissions`, which others lack. Source: llama_cpp/server/app.py (0.3.36), read 2026-11."""
    cards = model_cards(responses)
    return bool(cards) and all(card.get("owned_by") == "me" and "permissions" in card for card in cards or ())


LLAMACPP_PYTHON_PROBE = EngineProbe(MODELS_PATH, is_recognised=_is_llamacpp_python)
