"""What the REST API of every subject shares: base of views, parameters, problems, authentication, description."""
