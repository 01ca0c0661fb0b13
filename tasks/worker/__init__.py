"""The worker process: the runner that claims tasks, its service, its retry policy."""
