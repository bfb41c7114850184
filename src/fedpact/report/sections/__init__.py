"""The sections of the report; each is a function from a `View` to HTML."""
