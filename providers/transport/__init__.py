"""HTTP to the providers: one attempt at a call, its response stream and the pool of
endpoints.
"""
