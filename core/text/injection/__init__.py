"""Detection of prompt injection in texts, including obfuscated text."""
