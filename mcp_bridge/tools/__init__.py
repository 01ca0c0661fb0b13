"""Tools of MCP servers: the list a server offers, the names models call, results as
models get them.
"""
