"""The parts of requests beside their bodies."""
