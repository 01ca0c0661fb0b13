"""The MCP server at `/mcp`: streamable HTTP and the tools it offers."""
