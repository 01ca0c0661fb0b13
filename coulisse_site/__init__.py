"""Names every app, holds no rule."""
