"""What agents may call in a turn: memory, skills, agents, MCP servers, tasks."""
