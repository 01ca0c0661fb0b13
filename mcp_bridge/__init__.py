"""The tools of MCP servers, and the sign-in of each user to them."""
