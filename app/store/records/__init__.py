"""Reads of what was recorded: inferences, episodes, feedback, refusals and the audit log."""
