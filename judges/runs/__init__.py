"""Tasks in which judges score replies: what is queued, how it runs, what came of it."""
