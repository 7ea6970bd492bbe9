"""How much of anything a file may hold."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Limits(BaseModel):
    """Section `limits` of params.yaml: what a file that comes in may hold. Beyond, it is refused, not cut."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    file_mib: float = Field(65536.0, gt=0, description="MiB of a file")
    packed_mib: float = Field(4096.0, gt=0, description="MiB that a compressed file unpacks to")
    text_mib: float = Field(4096.0, gt=0, description="MiB of JSON Lines, ten times that in memory")
    table_mib: float = Field(16384.0, gt=0, description="MiB of a table in memory")
    rows: int = Field(1_000_000_000, ge=1, description="rows of a table")
    columns: int = Field(1000, ge=1, description="columns of a table")
    cells: int = Field(2_000_000_000, ge=1, description="rows times columns of a table that is not Parquet")
    json_mib: float = Field(256.0, gt=0, description="MiB of a JSON file")
    yaml_mib: float = Field(1.0, gt=0, description="MiB of a YAML file")
    values: int = Field(1_000_000, ge=1, description="values in a YAML file, aliases followed")
    depth: int = Field(100, ge=1, description="lists and mappings within each other, in JSON and YAML")
    nodes: int = Field(200_000, ge=1, description="operators of an ONNX file, functions inlined")
    files: int = Field(1000, ge=1, description="files of a delivery")
