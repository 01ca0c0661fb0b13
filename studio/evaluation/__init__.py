"""Pages about quality: judges, results of experiments, runs of smoke tests, and the
chart of scores."""
