"""Skills of agents: SKILL.md folders that are found, parsed, kept fresh, and offered to
models as tools.
"""
