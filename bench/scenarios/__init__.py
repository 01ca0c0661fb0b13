"""Runs of a whole server under one kind of load: a soak, slow clients, background
tasks, the studio's pages.
"""
