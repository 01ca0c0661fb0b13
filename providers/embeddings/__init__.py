"""Text to vectors: the choice of an embedder, embedding APIs and offline models."""
