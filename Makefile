# Every task of this project. `make` without a target lists them.
.DEFAULT_GOAL := help
.PHONY: help up serve migrate test test-long test-engines test-clients test-deploy test-browser check dashboard docs sbom bench lock clean

VENV := .venv/bin
NARTHEX := $(VENV)/narthex
# Property tests use the same examples on every run in CI, and new ones everywhere else.
PYTEST := $(VENV)/python -m pytest $(if $(CI),--hypothesis-profile=ci)

# The tests start hundreds of processes, each of which would compile every module again where this is set.
unexport PYTHONDONTWRITEBYTECODE

help:  ## List the tasks
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */\1\t/' | expand -t 16

up: installed  ## Start everything on this machine: gateway, database, sandbox engine (Ctrl-C ends it)
	@exec $(NARTHEX) up

serve: installed  ## Start only the gateway, with DATABASE_URL and REDIS_URL
	@exec $(NARTHEX) serve

migrate: installed  ## Create or upgrade the tables of DATABASE_URL, or of the running `make up`
	@$(NARTHEX) migrate

# Those of whole services wait for much of their time: three processes left 40 % of two cores idle.
test: installed-dev  ## Run the tests in four processes (minutes)
	$(PYTEST) -n 4 --dist loadfile --no-loadscope-reorder --ignore=tests/engines --ignore=tests/long --ignore=tests/clients --ignore=tests/deploy --ignore=tests/browser $(ARGS)

test-long: installed-dev  ## Run the long tests, among them the README in an empty folder
	$(PYTEST) tests/long $(ARGS)

test-engines: installed-dev  ## Test the adapters with real engines, which are installed first (gigabytes, many minutes)
	$(VENV)/python -m tests.engines.install
	$(PYTEST) tests/engines $(ARGS)

test-clients: installed-dev  ## Test popular SDKs and frameworks with the gateway; they are installed first (Node 20)
	$(VENV)/python -m tests.clients.install
	$(PYTEST) -n 2 --dist loadgroup tests/clients $(ARGS)

test-deploy: installed-dev  ## Check the image, compose file, Helm chart, proxies and PgBouncer; their tools are installed first
	@test -x .venv-deploy/bin/python || $(VENV)/python -m venv .venv-deploy
	@.venv-deploy/bin/python -m pip install --quiet -r infra/requirements-deploy.txt
	@sh tests/deploy/fetch_pgbouncer.sh .venv-deploy/pgbouncer
	$(PYTEST) tests/deploy $(ARGS)

test-browser: installed-dev  ## Test the dashboard in Debian's Chromium; Playwright and axe are installed first (Node 20)
	@test -x .venv-browser/bin/python || $(VENV)/python -m venv .venv-browser
	@.venv-browser/bin/python -m pip install --quiet -r tests/browser/requirements.txt
	@cd dashboard && npm ci --silent --ignore-scripts
	PYTHONPATH="$$(echo .venv-browser/lib/python3*/site-packages)" $(PYTEST) tests/browser $(ARGS)

dashboard: installed-dev  ## Build the dashboard's static files from dashboard/ (Node 20); commit what it writes
	$(VENV)/python -m dashboard.generate_types
	@cd dashboard && npm ci --silent --ignore-scripts
	cd dashboard && npm run --silent types && npm run --silent build

docs:  ## Make the documentation a static site in dist/docs; a broken link is an error
	@test -x .venv-docs/bin/python || python3 -m venv .venv-docs
	@.venv-docs/bin/python -m pip install --quiet -r docs/site/requirements.txt
	.venv-docs/bin/sphinx-build --quiet --fail-on-warning --keep-going -j auto -c docs/site -d dist/docs-cache . dist/docs
	@cp docs/site/index.html dist/docs/index.html
	@echo "Open dist/docs/index.html"

SBOM := dist/narthex.cdx.json
sbom:  ## Write the list of all packages of the image (CycloneDX); needs `make test-deploy` once
	@mkdir -p $(dir $(SBOM))
	@.venv-deploy/bin/cyclonedx-py requirements requirements-serve.lock --pyproject pyproject.toml --output-file $(SBOM)

check: installed-dev  ## Check style, types, and how many calls a request costs
	$(VENV)/ruff check
	$(VENV)/ruff format --check
	PYRIGHT_PYTHON_USE_BUNDLED_PYRIGHT=1 $(VENV)/pyright
	$(VENV)/python -m bench.calls
	$(VENV)/python -m dashboard.check_build

bench: installed-dev  ## Measure the gateway, beside a direct connection and other gateways
	$(VENV)/python -m bench $(ARGS)

lock:  ## Regenerate the lock files from pyproject.toml (needs uv; UPGRADE=1 upgrades versions)
	@command -v $(UV) >/dev/null || { echo "make lock needs uv: pipx install uv, or make lock UV=/path/to/uv" >&2; exit 1; }
	$(COMPILE) pyproject.toml --extra local --group build -o requirements.lock
	$(COMPILE) pyproject.toml -c requirements.lock -o requirements-serve.lock
	$(COMPILE) --group build -c requirements.lock -o requirements-build.lock
	$(COMPILE) pyproject.toml --extra local --extra parquet --extra dev --group build -c requirements.lock -o requirements-dev.lock

clean:  ## Remove build results (.venv, caches); the data in .narthex stays
	rm -rf .venv .venv-browser dashboard/node_modules .pytest_cache .ruff_cache .hypothesis dist bench/build
	find . -name __pycache__ -type d -not -path './.*' -prune -exec rm -rf {} +

UV := uv
COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--custom-compile-command "make lock" $(if $(UPGRADE),--upgrade)

.PHONY: installed installed-dev
installed:
	@infra/install.sh requirements.lock
installed-dev:
	@infra/install.sh requirements-dev.lock
