"""The health of a hub: what is measured of it, and checks that really do what callers do."""
