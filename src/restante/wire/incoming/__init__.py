"""Bodies of messages that strangers wrote, decoded: JSON, CloudEvents, Arrow."""
