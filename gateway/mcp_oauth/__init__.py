"""Users' connections to MCP servers: the sign-in in a browser, its error pages, and the
list of connections.
"""
