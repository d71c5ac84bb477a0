"""The sandbox engine: an OpenAI-speaking server without a model, for trying a gateway or testing a client for nothing."""

from app.sandbox.server import build, serve

__all__ = ["build", "serve"]
