"""The keys that each gateway process holds in memory, and how it learns of changes. Keys are created and changed in store/teams."""
