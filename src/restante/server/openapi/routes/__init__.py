"""The routes, described: one module a subject, as in `server/routes/`."""
