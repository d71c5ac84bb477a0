"""The configuration: read from a file or REST, validated, stored with its history. configuration.py is the way in."""
