"""The request log of `telemetry.request_log`: a JSON object per HTTP request."""
