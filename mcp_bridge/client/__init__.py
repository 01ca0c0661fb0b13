"""Sessions with MCP servers: their pool, transports, errors and child processes."""
