"""What the tester cannot know: how JSON Lines are written, and which streams and records there are."""

import json

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def lines(ctx, value):
    if isinstance(value, bytes):
        return value
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf-8", "surrogatepass")


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    """Every other path leads to what is there."""
    if path_parameters and sum(map(ord, str(path_parameters))) % 2 == 0:
        known = {"stream": "messages", "id": "m-001"}
        return {name: known.get(name, value) for name, value in path_parameters.items()}
    return path_parameters
