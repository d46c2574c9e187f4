"""Access: tokens, grants, hosts and origins of web pages."""
