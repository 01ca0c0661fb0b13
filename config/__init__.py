"""Read, validate and watch the YAML file."""
