"""Users' sign-ins to remote MCP servers (OAuth 2.1): the flow, the tokens and the
client registrations.
"""
