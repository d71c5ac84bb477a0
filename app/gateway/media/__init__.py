"""Media by URL: fetched for targets that need the bytes. fetcher.py is the way in."""
