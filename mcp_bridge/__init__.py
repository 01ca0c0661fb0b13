"""Tools of MCP servers, and users' sign-ins to them."""
