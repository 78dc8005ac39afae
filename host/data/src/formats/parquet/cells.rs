//! The values of a column, and their conversion to a row.

use crate::numbers::Number;
use crate::rows::{Columns, Row};
use parquet::column::reader::ColumnReader;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;

/// A value of a column.
pub(super) enum Cell {
    Missing,
    Number(Number),
    Truth(bool),
    Text(ByteArray),
}

/// Reads up to `rows` values of a column.
pub(super) fn cells(reader: &mut ColumnReader, rows: usize, is_unsigned: bool) -> Result<Vec<Cell>, ParquetError> {
    macro_rules! read {
        ($reader:expr, $cell:expr) => {{
            let (mut levels, mut values) = (Vec::new(), Vec::new());
            let (records, found, _) = $reader.read_records(rows, Some(&mut levels), None, &mut values)?;
            // Without levels every value is present.
            let full = levels.iter().copied().max().unwrap_or_default();
            let mut values = values.into_iter().map($cell);
            if levels.is_empty() || found == records {
                values.collect()
            } else if found == 0 {
                levels.iter().map(|_| Cell::Missing).collect()
            } else {
                let cell = |level: &i16| if *level == full { values.next() } else { Some(Cell::Missing) };
                levels.iter().map(cell).collect::<Option<Vec<_>>>().unwrap_or_default()
            }
        }};
    }
    Ok(match reader {
        ColumnReader::BoolColumnReader(reader) => read!(reader, Cell::Truth),
        ColumnReader::Int32ColumnReader(reader) if is_unsigned => {
            read!(reader, |value: i32| Cell::Number(i64::from(value.cast_unsigned()).into()))
        }
        ColumnReader::Int32ColumnReader(reader) => read!(reader, |value| Cell::Number(i64::from(value).into())),
        ColumnReader::Int64ColumnReader(reader) if is_unsigned => {
            read!(reader, |value: i64| Cell::Number(value.cast_unsigned().into()))
        }
        ColumnReader::Int64ColumnReader(reader) => read!(reader, |value: i64| Cell::Number(value.into())),
        ColumnReader::FloatColumnReader(reader) => read!(reader, |value: f32| Cell::Number(value.into())),
        ColumnReader::DoubleColumnReader(reader) => read!(reader, |value: f64| Cell::Number(value.into())),
        ColumnReader::ByteArrayColumnReader(reader) => read!(reader, Cell::Text),
        ColumnReader::Int96ColumnReader(_) | ColumnReader::FixedLenByteArrayColumnReader(_) => Vec::new(),
    })
}

/// Adds a value to a row.
pub(super) fn add(columns: &Columns<'_>, column: usize, cell: &Cell, row: &mut Row) -> Result<(), String> {
    match cell {
        Cell::Missing => columns.text(column, "", row),
        Cell::Number(number) => columns.number(column, *number, row),
        Cell::Truth(truth) => columns.truth(column, *truth, row),
        Cell::Text(bytes) => match std::str::from_utf8(bytes.data()) {
            Ok(text) => columns.text(column, text.trim(), row),
            Err(_) => columns.text(column, "not UTF-8", row),
        },
    }
}
