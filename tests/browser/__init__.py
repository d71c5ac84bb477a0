"""The dashboard in a real browser, against the whole service. `make test-browser` installs what these tests need."""
