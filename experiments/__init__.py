"""Experiments: several agents under one name, and their comparison."""
