"""Doctor looks at the place for documents: a bucket that is away, a folder that is none, and both when they are well."""

from pathlib import Path

import pytest

from penstock.blobs import cloud
from penstock.operations import examine
from penstock.operations.doctor.disk import examine_blobs
from penstock.settings import Settings
from penstock.settings.storage import BlobSettings


async def test_a_bucket_that_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud, "RETRY", {"max_retries": 0})
    options = "access_key_id=a secret_access_key=kept-to-itself"
    blobs = BlobSettings.model_validate({"url": "s3://mill", "endpoint": "http://127.0.0.1:9", "options": options})
    [finding] = await examine_blobs(Settings(home=tmp_path, blobs=blobs))
    assert finding.name == "blobs-unwritable"
    assert "Writing to s3://mill failed" in finding.sentence
    assert "kept-to-itself" not in str(vars(finding))


async def test_an_option_that_nobody_knows(tmp_path: Path) -> None:
    blobs = BlobSettings.model_validate({"url": "s3://mill", "options": "nonsense=kept-to-itself"})
    [finding] = await examine_blobs(Settings(home=tmp_path, blobs=blobs))
    assert "s3://mill cannot be opened" in finding.sentence
    assert "kept-to-itself" not in str(vars(finding))


async def test_a_folder_that_is_none(settings: Settings) -> None:
    file = settings.home / "blobs"
    file.write_text("in the way")
    findings = {finding.name: finding for finding in await examine(settings)}
    assert findings["blobs-unwritable"].sentence == f"Documents cannot be stored: {file} is not a folder."

    other = BlobSettings.model_validate({"folder": str(settings.home / "other" / "deep")})
    well = settings.model_copy(update={"blobs": other})
    assert "blobs-unwritable" not in {finding.name for finding in await examine(well)}
    assert not (settings.home / "other").exists()  # it only looked
