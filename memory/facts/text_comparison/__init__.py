"""Whether two sentences about a user say the same, opposite, or different things."""
