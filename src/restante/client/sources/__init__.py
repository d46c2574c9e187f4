"""Sources as callers see them."""
