"""Background tasks that run an agent. Each attempt is one turn."""
