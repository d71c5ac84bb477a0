"""Imports of other gateways' configurations."""
