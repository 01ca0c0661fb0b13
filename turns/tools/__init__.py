"""What an agent may call in a turn: memory, skills, other agents, MCP servers."""
