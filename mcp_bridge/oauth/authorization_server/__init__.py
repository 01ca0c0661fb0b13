"""Requests to an authorization server: discovery, dynamic registration and the token
endpoint.
"""
