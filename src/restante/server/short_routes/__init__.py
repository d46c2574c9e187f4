"""Routes that are answered past the application: small publishes, dequeues and acknowledgements."""
