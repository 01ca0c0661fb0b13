"""What checks look for: patterns, personal data, injections, moderation, a model."""
