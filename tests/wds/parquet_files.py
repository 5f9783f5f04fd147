"""Writes the Parquet files of parquet_test.cc into the current folder."""

import os

import pyarrow as pa
import pyarrow.parquet as pq


def image(i, size=50):
    return b"\xff\xd8\xff" + bytes([i]) * (size + i)


def images(rows, size=50):
    files = [None if i is None else {"bytes": image(i, size), "path": f"{i}.JPEG"} for i in rows]
    return pa.array(files, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))


def table(rows):
    return pa.table({
        "image": images(rows),
        "label": pa.array([i % 4 for i in rows], pa.int8()),
        "name": pa.array([f"n.{i}" for i in rows]).dictionary_encode(),
        "Mask": pa.array([b"\x89PNG\r\n\x1a\n%d" % i for i in rows], pa.large_binary()),
        "score": pa.array([None if i == 3 else i / 8 for i in rows], pa.float32()),
        "views": pa.array([[b"v%d" % i, b"w"] for i in rows], pa.list_(pa.binary())),
    })


pq.write_table(table(range(23)), "a.parquet", row_group_size=5, compression="zstd")
pq.write_table(table(range(23, 30)), "b.parquet", row_group_size=150)

features = ('{"info": {"features": {"label": {"names": ["%s"], "_type": "ClassLabel"}}}}' % names
            for names in ('cat", "dog', 'dog", "cat'))
os.makedirs("named")
for name, feature in zip(("named/cats.parquet", "named/dogs.parquet"), features):
    pq.write_table(table(range(2)).replace_schema_metadata({"huggingface": feature}), name)

holes = pa.table({"photo": images([0, 1, 2, None, 4, 5, 6, 7]),
                  "kind": pa.array([0, 1, 2, 3, 4, 5, None, 7], pa.int64())})
pq.write_table(holes, "holes.parquet", row_group_size=3)

summed = pa.table({"image": images(range(20), 300), "label": pa.array(range(20))})
pq.write_table(summed, "summed.parquet", row_group_size=5, compression="none", write_page_checksum=True)

wide = pa.table({"image": images(range(40), 3_000), "label": pa.array(range(40)),
                 "junk": pa.array([bytes([i]) * 20_000 for i in range(40)])})
pq.write_table(wide, "wide.parquet", row_group_size=10, compression="none", use_dictionary=False)
