"""Python imports this when a process starts whose PYTHONPATH has this folder: it guards the gateway processes of services under test."""

import os
import sys

if os.environ.get("TEST_GUARD_REPORT") and "app.supervisor.run_gateway" in sys.orig_argv:
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)))
    from tests.support import guards

    guards.install(os.environ["TEST_GUARD_REPORT"])
