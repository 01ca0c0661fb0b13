"""The pages of a `StudioModelAdmin`: lists in pages by key, rows, forms, actions."""
