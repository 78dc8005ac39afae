//! The samples of a split's files, collected while reading.

use super::cells::{Cell, add};
use super::choose_columns::Content;
use crate::numbers::{Number, Sink, Values};
use crate::pictures::{PixelLayout, pixels};
use crate::rows::{Row, TableSamples};
use crate::{DataError, DataOptions};
use std::path::Path;

/// The fault of an image without bytes.
const NO_IMAGE: &str = "the image has no bytes: write the data set with its images in it, not with their paths";

/// Samples of a table, or of images.
pub(super) struct Samples<'a> {
    options: &'a DataOptions,
    table: Option<TableSamples>,
    pixels: Sink<u8>,
    layout: Option<PixelLayout>,
}

impl<'a> Samples<'a> {
    pub fn new(options: &'a DataOptions) -> Self {
        Self { options, table: None, pixels: Sink::new(&options.room()), layout: None }
    }

    /// Adds a block of rows. Returns the bad rows with reasons.
    pub fn add(
        &mut self,
        file: &Path,
        content: &Content<'_>,
        block: &[Vec<Cell>],
        labels: &mut Sink<Number>,
    ) -> Result<Vec<(usize, String)>, DataError> {
        let other = || {
            DataError::File(format!(
                "{}: has other columns than the files before it: use files that belong together",
                file.display()
            ))
        };
        match content {
            Content::Table(columns) => {
                if self.table.is_none() {
                    self.table = Some(TableSamples::new(columns, self.options)?);
                }
                let table = self.table.as_mut().filter(|table| table.width() == columns.width());
                let (Some(table), None) = (table, self.layout) else { return Err(other()) };
                let (mut faults, mut row) = (Vec::new(), Row::default());
                for at in 0..block[0].len() {
                    row.features.clear();
                    let mut fault = None;
                    for (column, cells) in block.iter().enumerate() {
                        if let Err(problem) = add(columns, column, &cells[at], &mut row) {
                            fault.get_or_insert(problem);
                        }
                    }
                    faults.extend(table.push(&row, fault)?.map(|fault| (at, fault)));
                    labels.push(&[row.label])?;
                }
                Ok(faults)
            }
            Content::Images { label } => {
                if self.table.is_some() {
                    return Err(other());
                }
                let bytes: Vec<Vec<u8>> = block[0]
                    .iter()
                    .map(|cell| if let Cell::Text(bytes) = cell { bytes.data().to_vec() } else { vec![] })
                    .collect();
                if bytes[0].is_empty() && self.layout.is_none() {
                    return Err(DataError::File(format!("{}: row 0: {NO_IMAGE}", file.display())));
                }
                let layout = match self.layout {
                    Some(layout) => layout,
                    None => PixelLayout::new(self.options, &bytes[0])
                        .map_err(|fault| DataError::File(format!("{}: row 0: {fault}", file.display())))?,
                };
                self.layout = Some(layout);
                let mut faults = Vec::new();
                for (at, image) in pixels(layout, &bytes, self.options)?.into_iter().enumerate() {
                    let image = if bytes[at].is_empty() { Err(NO_IMAGE.to_owned()) } else { image };
                    let mut row = Row::default();
                    let labelled = block.get(1).map_or(Ok(()), |cells| add(label, 0, &cells[at], &mut row));
                    faults.extend(image.as_ref().err().or(labelled.as_ref().err()).map(|fault| (at, fault.clone())));
                    self.pixels.push(&image.unwrap_or_else(|_| vec![0; layout.len()]))?;
                    labels.push(&[row.label])?;
                }
                Ok(faults)
            }
        }
    }

    /// Returns true if the samples are from a table, with all constants applied.
    pub fn are_scaled(&self) -> bool {
        self.table.is_some()
    }

    /// Returns the shape of a sample, and all values.
    pub fn finish(self) -> Result<(Vec<usize>, Values), DataError> {
        match (self.layout, self.table) {
            (None, Some(table)) => Ok((vec![table.width()], table.finish()?)),
            (layout, _) => Ok((layout.map_or(vec![0], |layout| layout.shape()), self.pixels.values()?)),
        }
    }
}
