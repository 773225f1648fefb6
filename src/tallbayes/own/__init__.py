"""Models of the user's own: any log-likelihood that gives one number a row."""
