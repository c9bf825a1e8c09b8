import json

import pytest

from blackstart.errors import CheckError, InputError
from roles.bench import tasks
from roles.bench.state import series_file


def test_a_series_that_can_be_kept_leaves_nothing_before_its_first_record(tmp_path):
    path = series_file(tmp_path, "mine")
    tasks._require_room_for_records(path)
    assert list(path.parent.iterdir()) == []


def test_an_earlier_record_of_the_series_stays(tmp_path):
    path = series_file(tmp_path, "mine")
    path.parent.mkdir()
    path.write_text("{}\n")
    tasks._require_room_for_records(path)
    tasks._keep(path, {"prompts": 1})
    assert path.read_text() == '{}\n{"prompts": 1}\n'


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_a_name_that_no_file_can_have_is_wrong_input(tmp_path, name):
    with pytest.raises(InputError, match="cannot be kept"):
        tasks._require_room_for_records(series_file(tmp_path, name))


def test_a_folder_that_cannot_be_made_is_wrong_input(tmp_path):
    (tmp_path / "series").touch()
    with pytest.raises(InputError, match="cannot be kept"):
        tasks._require_room_for_records(series_file(tmp_path, "mine"))


def test_a_record_that_cannot_be_kept_is_told_whole(tmp_path):
    record = {"prompts": 1, "output_throughput": 81.9}
    with pytest.raises(CheckError) as caught:
        tasks._keep(tmp_path / "gone" / "mine.jsonl", record)
    assert json.loads(caught.value.found) == record


@pytest.mark.parametrize(("value", "shown"), [(12.16, "12.2"), (0, "0.0"), ("NaN", "NaN"), ("Infinity", "Infinity")])
def test_a_figure_may_be_no_number(value, shown):
    assert tasks._figure({"mean_tpot_ms": value}, "mean_tpot_ms") == shown
