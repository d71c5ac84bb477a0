"""Work whose time a caller chooses, in processes of its own: bounded in time and memory, and shared fairly by teams."""
