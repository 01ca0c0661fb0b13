"""What endpoints have in common: JSON responses, pages of lists, types of fields."""
