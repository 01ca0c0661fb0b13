"""The endpoints of `/v1/memories` and `/v1/users/me`."""
