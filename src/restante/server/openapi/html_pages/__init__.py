"""The pages at `/docs`, made from the OpenAPI document."""
