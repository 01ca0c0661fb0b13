"""Spans of turns and tasks, sent to an OpenTelemetry collector (`telemetry.otlp`)."""
