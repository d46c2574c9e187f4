"""Messages on their way in: rules, drafts, arrivals."""
