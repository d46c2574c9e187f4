"""Publishing: messages in, judged, numbered and stored; producers' numbers; notices sent as messages."""
