"""Erasing what was recorded of somebody. erasures.py has the orders, runner.py and steps.py carry them out."""
