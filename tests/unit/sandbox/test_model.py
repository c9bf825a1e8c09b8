import json

import pytest

from sandbox import model


def test_build_is_idempotent_and_leaves_nothing_beside(tmp_path):
    first = model.build(tmp_path)
    inode = first.stat().st_ino
    assert first == tmp_path / "glm-5-nvfp4"
    assert model.build(tmp_path).stat().st_ino == inode
    assert [path.name for path in tmp_path.iterdir()] == ["glm-5-nvfp4"]


@pytest.mark.parametrize("damage", ["cut", "missing", "foreign"])
def test_a_damaged_folder_is_made_again(tmp_path, damage):
    target = model.build(tmp_path)
    tokenizer = target / "tokenizer.json"
    if damage == "cut":
        tokenizer.write_text(tokenizer.read_text()[:100])
    elif damage == "missing":
        tokenizer.unlink()
    else:
        (target / "model.safetensors").write_bytes(b"")
    model.build(tmp_path)
    assert {path.name for path in target.iterdir()} == set(model.folder())
    assert json.loads(tokenizer.read_text()) == model.tokenizer()


def test_what_a_killed_build_left_is_removed(tmp_path):
    (tmp_path / ".glm-5-nvfp4.abc").mkdir()
    model.build(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["glm-5-nvfp4"]


def test_the_folder_says_that_it_is_simulated_and_has_no_weights():
    files = model.folder()
    assert "simulated: true" in files["README.md"] and "SIMULATED" in files["README.md"]
    assert not [name for name in files if name.endswith((".safetensors", ".bin"))]


def test_the_configuration_is_glm_5_s_with_nvfp4_by_modelopt():
    config = json.loads(model.folder()["config.json"])
    assert config["architectures"] == ["GlmMoeDsaForCausalLM"]
    assert config["quantization_config"]["quant_algo"] == "NVFP4"
    assert json.loads(model.folder()["hf_quant_config.json"])["producer"]["name"] == "modelopt"


def test_every_merge_grows_a_piece_of_the_vocabulary_by_one_letter():
    bpe = model.tokenizer()["model"]
    assert all(left in bpe["vocab"] and left + letter in bpe["vocab"] for left, letter in bpe["merges"])
    assert all(len(letter) == 1 for _, letter in bpe["merges"])
    assert sorted(bpe["vocab"].values()) == list(range(len(bpe["vocab"])))


def test_all_256_bytes_and_every_number_are_single_tokens():
    vocabulary = model.tokenizer()["model"]["vocab"]
    assert len([token for token in vocabulary if len(token) == 1]) == 256
    assert all(f"Ġ{number}" in vocabulary for number in range(model.HIGHEST_NUMBER + 1))
