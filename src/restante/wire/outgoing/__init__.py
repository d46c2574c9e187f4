"""Answers of the hub, encoded piece by piece: JSON, CloudEvents, Arrow, the feed."""
