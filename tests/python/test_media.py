"""Sounds: parts of WAV files, resampled."""

from __future__ import annotations

import io
import pickle
import wave
from pathlib import Path
from typing import Any

import pytest

import millrace as mr
from test_boxes import write_set

np = pytest.importorskip("numpy")

RATE = 44_100


def wav(frames: Any, rate: int = RATE) -> bytes:
    """The file of int16 (frames, channels)."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(frames.shape[1])
        writer.setsampwidth(2)
        writer.setframerate(rate)
        writer.writeframes(frames.tobytes())
    return file.getvalue()


def sound(number: int, seconds: float, channels: int = 2) -> Any:
    time = np.arange(int(seconds * RATE)) / RATE
    tones = [np.sin(2 * np.pi * (300 + 70 * number + 900 * c) * time) for c in range(channels)]
    return np.round(12_000 * np.stack(tones, axis=1)).astype(np.int16)


def batch_of(shard: str, field: mr.Field, **options: Any) -> dict[str, Any]:
    options = {"batch_size": 4, **options}
    with mr.Pipeline(shard, fields={"voice": field}, **options).numpy() as loader:
        return dict(next(iter(loader)))


@pytest.fixture
def sounds(tmp_path: Path) -> str:
    samples = [{"wav": wav(sound(number, 0.3 + 0.1 * number))} for number in range(4)]
    shard = write_set(tmp_path / "sounds.tar", samples)
    try:
        batch_of(shard, mr.Audio(0.1))
    except mr.UnsupportedError as error:
        pytest.skip(str(error))
    return shard


def test_sounds_are_the_files(sounds: str) -> None:
    batch = batch_of(sounds, mr.Audio(0.5, RATE, channels=2, place="start"))
    assert batch["voice"].dtype == np.float32 and batch["voice"].shape == (4, 2, 22_050)
    assert batch["voice.length"].tolist() == [13_230, 17_640, 22_050, 22_050]
    for number, (voice, length) in enumerate(
        zip(batch["voice"], batch["voice.length"], strict=True)
    ):
        stored = sound(number, 0.3 + 0.1 * number)[:22_050].T / np.float32(32_768)
        assert (voice[:, :length] == stored).all()
        assert not voice[:, length:].any()


def test_resampled_sounds_are_scipys(sounds: str) -> None:
    signal = pytest.importorskip("scipy.signal")
    batch = batch_of(sounds, mr.Audio(0.3, 16_000, place="middle"))
    assert batch["voice"].shape == (4, 1, 4_800)
    for number, voice in enumerate(batch["voice"]):
        stored = sound(number, 0.3 + 0.1 * number).mean(axis=1) / 32_768
        whole = signal.resample_poly(stored, 160, 441)
        begin = (len(whole) - 4_800) // 160 // 2 * 160
        ours, scipys = voice[0], whole[begin : begin + 4_800]
        assert np.abs(ours - scipys)[200:-200].max() < 3e-3


def test_places_are_drawn_by_seed_and_name(sounds: str) -> None:
    field = mr.Audio(0.05)
    assert pickle.loads(pickle.dumps(field)) == field

    def voices(seed: int, name: str = "voice") -> Any:
        data = mr.Pipeline(sounds, fields={name: field}, batch_size=4, shuffle=mr.Shuffle(seed=seed))
        with data.numpy() as loader:
            batch = next(iter(loader))
        return batch[name][np.argsort(batch["keys"])]

    assert (voices(1) == voices(1)).all()
    assert (voices(1) != voices(2)).any() and (voices(1) != voices(1, "other")).any()


def test_damaged_sounds_are_faults(tmp_path: Path, sounds: str) -> None:
    samples = [{"wav": wav(sound(0, 0.3))}, {"wav": wav(sound(0, 0.3))[:-100]}, {"wav": b"RIFF"}]
    shard = write_set(tmp_path / "damaged.tar", samples)
    with pytest.raises(mr.TruncatedError, match="ends 100 bytes before its samples do.*001.wav"):
        batch_of(shard, mr.Audio(0.1))
    batch = batch_of(shard, mr.Audio(0.1), faults=mr.Faults("skip"))
    assert sorted(batch["valid"].tolist()) == [0, 0, 0, 1]
    with pytest.raises(mr.InvalidArgumentError, match="field voice: a sound of 0 s"):
        batch_of(sounds, mr.Audio())
    with pytest.raises(mr.InvalidArgumentError, match="must be one of random, start, middle"):
        mr.Audio(1, place="end")  # type: ignore[arg-type]
