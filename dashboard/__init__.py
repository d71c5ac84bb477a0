"""The source of the web page that the gateway serves at /dashboard, and the programs that check its build. docs/dashboard.md tells how."""
