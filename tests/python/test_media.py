"""Parts of sounds, resampled, and of films."""

from __future__ import annotations

import base64
import io
import pickle
import wave
import zlib
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


# Six pictures of 16 x 32 in 0.6 s, MPEG-4 (tests/pipeline/film_writer.cc): grey at the left, which
# grows lighter from picture to picture, white at the right.
FILM = zlib.decompress(
    base64.b85decode(
        "c-nnaJ!lj`6n^`6o)F|Dr(EEK6Czk7;Sv?KP=nQh7HOg)Hgh+#WXaC$u`^lG>aeg8LB&EWY*GaqQA~Y>g~8S?g@u"
        "if%E~gnH@nMCPLpBZym{}<_q~}nZvmhg>PLe}B@(~|(kM%EaB&d;s$nVw>b~Sm12~_cb_~^aZM5m{B|p8lyMHY2^"
        "k_4<h2AH|yZv&sbDg~jXP!PJ>lIlq_)O)lg*b(XXNX91#Ou+{4*>6-Op*+<#xh&uaA0`9@Raw!0s6+nIk;=mUWOx"
        "wi{DqBvUOZP(Ca3r_b(gfg`@NQH*X82X3SZ^wL;w#vC?A%@%jbUU6wpzgpz#n?&nb&u=>Rq^J_d#%SaY+Veh<ycG"
        "6*e9t+yz?8&Gf;-a2OLuwy$mgli1Peo{5V`?LfTlv~~uXH!Y^{&#2TYJ7?n`DQSf-YWz4(iUKJ0?eCe;;Qi6j$c4"
        "hr{6t!hF;>TPMkN?Kn=sN`Rg=GJg1t)90<}oZM+uzdx_Ss^h!$#tpPT-ey_v($$3vmlqb>?Fxb%m&(x9X<q+=j#4"
        "Xa-ljZg#k>iY1+QHCy&^^&0m_x$7!%|%zrarweO2;R?E(;I&&pNgGkOkVkFAoB|8yZI3ZXR-)|Kuh7S9|?cY|x{p"
        "Zii6P2;THE7)Ht8w_H*?(<RJkmt5^LWF1VZ)fF!v4$bmaLLs0FE?wGx&"
    )
)


@pytest.fixture
def films(tmp_path: Path) -> str:
    shard = write_set(tmp_path / "films.tar", [{"mp4": FILM}] * 4)
    try:
        batch_of(shard, mr.Video(1, 8))
    except mr.UnsupportedError as error:
        pytest.skip(str(error))
    return shard


def levels(film: Any) -> Any:
    """Of the left halves of (frames, height, width, 3)."""
    _, height, width, _ = film.shape
    return film[:, height // 2, width // 4, 1].astype(int)


DRAWN = [round((30 + 4 * number - 16) * 255 / 219) for number in range(6)]


def test_films_are_the_pictures(films: str) -> None:
    batch = batch_of(films, mr.Video(8, (8, 20), place="start"))
    assert batch["voice"].dtype == np.uint8 and batch["voice"].shape == (4, 8, 8, 20, 3)
    assert batch["voice.length"].tolist() == [6] * 4
    for film in batch["voice"]:
        assert np.abs(levels(film[:6]) - DRAWN).max() <= 2
        assert (film[:6, :, 15:] > 250).all() and not film[6:].any()
    slow = batch_of(films, mr.Video(3, 16, rate=5, place="middle"))
    assert np.abs(levels(slow["voice"][0]) - DRAWN[::2]).max() <= 2


def test_parts_of_films_are_drawn(films: str) -> None:
    field = mr.Video(2, 16)
    assert pickle.loads(pickle.dumps(field)) == field and "size=16" in repr(field)
    firsts = set()
    for seed in range(6):
        for film in batch_of(films, field, shuffle=mr.Shuffle(seed=seed))["voice"]:
            first = int(np.abs(np.array(DRAWN) - levels(film)[0]).argmin())
            assert np.abs(levels(film) - DRAWN[first : first + 2]).max() <= 2
            firsts.add(first)
    assert firsts == {0, 1, 2, 3, 4}


def test_damaged_films_are_faults(tmp_path: Path, films: str) -> None:
    shard = write_set(tmp_path / "damaged.tar", [{"mp4": FILM}, {"mp4": FILM[:-9]}])
    with pytest.raises(mr.TruncatedError, match="ends 9 bytes early.*001.mp4"):
        batch_of(shard, mr.Video(2, 16))
    with pytest.raises(mr.InvalidArgumentError, match="field voice: 0 frames of 16 x 16"):
        batch_of(films, mr.Video(size=16))
