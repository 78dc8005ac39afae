#!/usr/bin/env python3
"""Writes the Parquet files of these tests with the libraries that users have (pandas 2 or 3, pyarrow, polars):

    pip install pandas pyarrow polars && python host/data/src/tests/parquet/make.py

Each file has the rows a = 0..5, b = 10 a, y = a % 2. The files differ in the index that pandas writes, and in the metadata about it.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).resolve().parent


def table() -> pd.DataFrame:
    a = np.arange(6)
    return pd.DataFrame({"a": a.astype("float32"), "b": 10.0 * a, "y": a % 2})


def write(name: str, frame: pd.DataFrame, **more: object) -> None:
    frame.to_parquet(HERE / name, compression=None, **more)


# The usual index is a range without a column.
write("range.parquet", table())
# A named index after the columns. As the last column, it would be the label.
named = table()
named.index = pd.Index(100 + np.arange(6), name="id")
write("named.parquet", named)
# An index without a name.
write("unnamed.parquet", table().set_index(pd.Index([7, 9, 8, 12, 10, 20])))
# An index of texts, and an index of two levels.
write("text.parquet", table().set_index(pd.Index(list("stuvwx"), name="key")))
write("levels.parquet", table().set_index([pd.Index(list("sstuvw"), name="key"), pd.Index(range(6), name="id")]))
# The index in front.
first = pa.Table.from_pandas(named)
pq.write_table(first.select(["id", "a", "b", "y"]), HERE / "first.parquet", compression="none")
# A column with the name of another file's index, but not an index here.
column = table()
column.insert(0, "id", 100 + np.arange(6))
write("column.parquet", column)
# Other writers do not mark an index.
pq.write_table(pa.table({"a": np.arange(6, dtype="f4"), "b": 10.0 * np.arange(6), "y": np.arange(6) % 2}), HERE / "arrow.parquet", compression="none")
polars.from_pandas(table()).write_parquet(HERE / "polars.parquet", compression="uncompressed")
# Other column orders.
write("reordered.parquet", named[["b", "y", "a"]])
# A struct. Its fields are columns with two-part names.
pq.write_table(
    pa.table({"s": pa.array([{"b": 10.0 * a, "a": float(a)} for a in range(6)]), "y": np.arange(6) % 2}),
    HERE / "nested.parquet",
    compression="none",
)
# A named range without a column.
ranged = table()
ranged.index = pd.RangeIndex(6, name="id")
write("ranged.parquet", ranged)
# Durations, which Parquet stores as plain integers: from pandas, from pyarrow alone (marked in its schema), and in a struct.
write("timedelta.parquet", table().assign(d=pd.to_timedelta(np.arange(6), unit="s"))[["a", "d", "y"]])
seconds = pa.array(np.arange(6), pa.duration("s"))
pq.write_table(pa.table({"a": np.arange(6.0), "d": seconds, "y": np.arange(6) % 2}), HERE / "duration.parquet", compression="none")
nested = pa.StructArray.from_arrays([np.arange(6.0), seconds], ["a", "d"])
pq.write_table(pa.table({"s": nested, "y": np.arange(6) % 2}), HERE / "duration-in-struct.parquet", compression="none")
# Other times.
times = pd.to_datetime(np.arange(6), unit="s")
write("times.parquet", pd.DataFrame({"stamp": times, "zone": times.tz_localize("UTC"), "day": times.date, "time": times.time, "y": np.arange(6) % 2}))
# Digits as text, booleans, and both as labels.
texts = {"zip": ["007", "12", "007", "12", "5", "5"], "flag": np.arange(6) % 3 == 0, "kind": list("010101"), "sick": np.arange(6) % 2 == 1}
write("texts.parquet", pd.DataFrame(texts))


def hugging_face(name: str, classes: list[str]) -> None:
    """Writes a column of classes in the format of `datasets`: numbers, with their names in the metadata."""
    label = {"label": {"names": classes, "_type": "ClassLabel"}}
    info = '{"info": {"features": %s}}' % str({"a": {"dtype": "float32", "_type": "Value"}, **label}).replace("'", '"')
    schema = pa.schema([("a", pa.float32()), ("label", pa.int64())], metadata={"huggingface": info})
    rows = pa.table({"a": np.arange(6, dtype="f4"), "label": np.arange(6) % len(classes)}, schema=schema)
    pq.write_table(rows, HERE / name, compression="none")


hugging_face("ant-bee.parquet", ["ant", "bee"])
hugging_face("bee-ant.parquet", ["bee", "ant"])
hugging_face("bee-cat.parquet", ["bee", "cat"])
