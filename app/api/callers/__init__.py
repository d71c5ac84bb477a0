"""The routes of callers. inference_route.py is the way in."""
