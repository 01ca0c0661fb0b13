"""Change values within YAML text and keep every other character, comments included."""
