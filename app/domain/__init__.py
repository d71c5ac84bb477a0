"""The records that all parts of the service speak of, a file for each noun."""
