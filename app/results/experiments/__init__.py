"""Results of an experiment, with their sentences. results.py is the way in."""
