"""OpenTelemetry: the trace that a request belongs to, and what is exported of recorded exchanges."""
