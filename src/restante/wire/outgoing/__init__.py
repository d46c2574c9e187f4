"""What the hub gives out, encoded piece by piece: JSON, CloudEvents, Arrow, the feed."""
