"""What acts on an experiment's results by itself, within bounds: guardrails that stop arms, and weights that follow the primary metric."""
