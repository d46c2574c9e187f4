"""The style and the script of the console, served from here: nothing is loaded from elsewhere."""
