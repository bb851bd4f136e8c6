"""Programs that use the server over HTTP: the client package, curl, clients of the Model Context Protocol."""
