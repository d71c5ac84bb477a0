"""Helpers of every process: background tasks, steps, logs, telemetry. Starting processes is in supervisor/processes."""
