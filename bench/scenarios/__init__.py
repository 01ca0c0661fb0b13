"""Measurements of a whole server under one kind of load: a soak test, slow clients,
background tasks, the studio's pages.
"""
