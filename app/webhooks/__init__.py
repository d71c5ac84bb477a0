"""Webhooks: notices of budgets, found and sent in the writer's process. background.py is the way in."""
