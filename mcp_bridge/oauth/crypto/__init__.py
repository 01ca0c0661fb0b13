"""Encryption of stored tokens, opaque tokens for links, and the keys of both."""
