"""The description of every route, as data: one module a subject, put together into one OpenAPI document."""
