"""What webhooks receive: its sender, its delivery id, and the prompt it fills."""
