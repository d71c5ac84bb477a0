"""The dashboard: static files, built from dashboard/, that are a client of the admin API."""
