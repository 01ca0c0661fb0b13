"""Decisions before a turn runs: options, agent, variant, prompt, reply language."""
