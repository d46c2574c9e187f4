"""Actions: something to be done, addressed by name, accepted at once and answered later."""
