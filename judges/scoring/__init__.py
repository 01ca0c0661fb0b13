"""Asking a judge's model: its context, the prompt, and the parser of its answer."""
