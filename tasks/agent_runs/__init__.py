"""Tasks that run an agent for one turn per attempt: handler, billing, completion and
costs.
"""
