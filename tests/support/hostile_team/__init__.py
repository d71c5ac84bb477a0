"""A hostile team: a process of its own with the callers of one team and the host that serves them, which attacks a gateway when told."""
