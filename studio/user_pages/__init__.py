"""Pages about the users of agents: list, summary, conversations, facts, scores, export
and erasure."""
