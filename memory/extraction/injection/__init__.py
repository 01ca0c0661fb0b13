"""Detection of prompt injection in facts, including obfuscated text."""
