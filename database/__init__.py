"""How async code reaches the tables: an executor whose threads own the connections."""
