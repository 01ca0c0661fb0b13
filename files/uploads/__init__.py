"""Reads uploads: the form, the type of the content, and what is stored of it."""
