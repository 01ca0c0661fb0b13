"""Verdicts on smoke runs: expectations, scores and the tool calls that are checked."""
