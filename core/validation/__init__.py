"""Check names, values and JSON Schemas from outside against fixed limits."""
