"""Reports: computed, kept, posted."""
