"""The console: pages in a browser that show a hub and change it, by its public routes alone."""
