"""What pages are made of: markup, tables, figures, times, plots, and the frame around everything."""
