"""A table of the settings."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A group of settings; validation errors of pydantic must not quote a secret."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
