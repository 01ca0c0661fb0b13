"""The demo server, the browser window, and checks of what it renders."""
