"""Parts of pages: markup, tables, figures, times, plots, and the frame around everything."""
