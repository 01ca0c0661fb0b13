"""The YAML: read, validate, watch."""
