"""Commands, a file for each noun."""
