"""Triggers that start agents: crons, webhooks, server starts and manual runs."""
