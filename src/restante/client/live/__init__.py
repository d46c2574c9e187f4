"""Live connections to a mailbox."""
