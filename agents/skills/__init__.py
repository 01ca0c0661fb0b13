"""Skills of agents: SKILL.md folders are found, parsed, refreshed, and offered to
models as tools."""
