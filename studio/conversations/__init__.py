"""The conversations of a user: messages with their turns, calls, facts and scores."""
