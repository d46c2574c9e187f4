"""Routes with a short way past the application: small publishes, dequeues, acknowledgements, actions and their reports."""
