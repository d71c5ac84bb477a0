"""Automatic acts on an experiment, within bounds: guardrails that stop arms, and weights that follow the
primary metric.
"""
