"""Bridges to Kafka: records of topics into mailboxes, and the feed into topics, each exactly once."""
