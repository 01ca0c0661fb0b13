"""Read access to triggers and their runs for the studio and the terminal."""
