"""Background work: a queue of database rows, and the workers that run it."""
