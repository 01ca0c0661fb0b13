"""One turn: prepare, run, finish. No tables of its own."""
