"""A producer's numbering, and digests of parcels."""
