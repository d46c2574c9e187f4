"""The description of every web socket, as data, put together into one AsyncAPI document."""
