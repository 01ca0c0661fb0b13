"""OpenAI's chat completions: from a request to a turn, and from a turn's events to a
response.
"""
