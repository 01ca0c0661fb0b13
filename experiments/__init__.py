"""Experiments: several agents under one name, and which of them does best."""
