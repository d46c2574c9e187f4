"""Routes that are answered past the application: small publishes, dequeues, acknowledgements, actions and their reports."""
