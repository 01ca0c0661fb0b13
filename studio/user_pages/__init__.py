"""Pages about the users of agents: the list, one user at a glance, conversations,
facts, scores, export and erasure.
"""
