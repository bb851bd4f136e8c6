"""The address of MCP."""

from django.urls import path

from webapp.mcp.views import McpView

site = [
    path("mcp", McpView.as_view(), name="mcp"),
]
