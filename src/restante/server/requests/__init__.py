"""What requests say beside their bodies."""
