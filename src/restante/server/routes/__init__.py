"""The routes of the contract, one module a subject."""
