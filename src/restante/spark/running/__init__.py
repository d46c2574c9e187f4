"""Running jobs: by name, on schedules, and what they send."""
