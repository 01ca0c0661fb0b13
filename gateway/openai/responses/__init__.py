"""OpenAI's Responses API: requests become turns, and events become responses."""
