//! Converts the rows of a file to samples: columns and classes by name, values by column role, shapes and checks.

mod array;
mod assemble;
mod class_labels;
mod column_roles;
mod find_column;
mod fit_shape;
mod line_of_row;
mod match_names;
mod missing_values;
mod name_lists;
mod table_samples;

pub(crate) use array::Array;
pub(crate) use assemble::{RawSplit, assemble};
pub(crate) use class_labels::{Classes, label};
pub(crate) use column_roles::{Columns, Row};
pub(crate) use find_column::{USUAL_LABELS, column, label_column, of_label, summary};
pub(crate) use fit_shape::to_front;
pub(crate) use line_of_row::LineNumbers;
pub(crate) use match_names::{Naming, Order};
pub(crate) use missing_values::is_value;
pub(crate) use name_lists::{quoted, shortened};
pub(crate) use table_samples::TableSamples;
