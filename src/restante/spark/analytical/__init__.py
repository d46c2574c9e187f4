"""The analytical tables that the job `analytical-store` keeps: the rules of their rows, their files, their upkeep."""
