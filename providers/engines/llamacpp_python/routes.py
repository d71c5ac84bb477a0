"""Engine routes of llama-cpp-python's server.

Its /extras/detokenize is left out: the process ends over a token that is not in its vocabulary (0.3.36).
"""

from providers.engine_routes.route_binding import EngineRoutes, RouteBinding
from providers.engine_routes.tokenize import check_one_text

LLAMACPP_PYTHON_ROUTES: EngineRoutes = {
    "tokenize": {
        "prompt": RouteBinding(
            name="/extras/tokenize",
            field_names={"prompt": "input"},
            value_checks={"prompt": check_one_text},
            neutral_values={"return_token_strs": False, "add_special_tokens": True},
        ),
        "input": RouteBinding(name="/extras/tokenize", is_native=True),
    }
}
