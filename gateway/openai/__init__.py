"""OpenAI's chat completions: requests become turns, and events become responses."""
