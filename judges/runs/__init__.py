"""Judge tasks: what is enqueued, how a task runs, and its results."""
