"""The commands of bridges to Kafka."""
