"""What an agent keeps of a conversation between turns."""
