"""What WebDataset reads from each tar of a folder: "FILE KEY SUFFIX CRC32" lines, "FILE ! ERROR" at
an error. Packs each plain tar with gzip, bzip2 and xz first, and adds tars that tarfile wrote."""

import bz2
import gzip
import io
import lzma
import os
import sys
import tarfile
import zlib

sys.modules["torch"] = None  # webdataset would import it for seconds, and does without
from webdataset import tariterators  # noqa: E402

folder = sys.argv[1]


def written_by_tarfile(name, form):
    with tarfile.open(os.path.join(folder, name), "w", format=form) as tar:
        for i in range(5):
            for suffix in ("jpg", "seg.png", "cls"):
                info = tarfile.TarInfo(f"dir{'x' * 30 * i}/\u00e4{i}.{suffix}")
                data = f"{suffix} of {i}".encode() * (i * 400)
                info.size = len(data)
                info.mtime = 1234567890.5 if form == tarfile.PAX_FORMAT else 1234567890
                tar.addfile(info, io.BytesIO(data))


written_by_tarfile("tarfile_ustar.tar", tarfile.USTAR_FORMAT)
written_by_tarfile("tarfile_gnu.tar", tarfile.GNU_FORMAT)
written_by_tarfile("tarfile_pax.tar", tarfile.PAX_FORMAT)
for name in sorted(os.listdir(folder)):
    data = open(os.path.join(folder, name), "rb").read()
    for suffix, pack in ((".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)):
        open(os.path.join(folder, name + suffix), "wb").write(pack(data))

for name in sorted(os.listdir(folder)):
    url = os.path.join(folder, name)
    try:
        for sample in tariterators.tarfile_samples([{"url": url}]):
            for suffix, value in sample.items():
                if not suffix.startswith("__"):
                    print(name, sample["__key__"], suffix, f"{zlib.crc32(value):08x}", sep="\t")
    except Exception as error:
        print(name, "!", type(error).__name__, sep="\t")
