"""Asking a judge's model: what it reads, the prompt, and how its answer is parsed."""
