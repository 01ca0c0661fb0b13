"""Tools of agents in a turn: memory, skills, agents, MCP servers, tasks."""
