"""OpenAI's Conversations API over the threads of users."""
