"""Pages that report activity: home page with alerts, turns, spending and audit."""
