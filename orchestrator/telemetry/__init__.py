"""Who is told of events: logs, metrics, notifications. All are listeners of one Event; none may raise."""
