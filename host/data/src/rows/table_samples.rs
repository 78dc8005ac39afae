//! Converts the rows of a table to samples. They are scaled by public constants in float64, and rounded once to the
//! type of the model's input.

use super::column_roles::{Columns, Row};
use super::fit_shape::{Fit, fit};
use crate::dataset::Scaling;
use crate::numbers::{Number, Sink, Values, not_finite, rounded};
use crate::options::DROP;
use crate::{DataError, DataOptions};

/// The samples of a table.
pub(crate) struct TableSamples {
    names: Vec<String>,
    /// Mean and standard deviation of each value, from `normalize`.
    constants: Vec<Option<(f64, f64)>>,
    sink: Samples,
}

enum Samples {
    Integers(Sink<i64>),
    Floats(Sink<f32>),
    /// Values that are rounded after released constants scale them.
    Unrounded(Sink<f64>),
}

impl TableSamples {
    /// Creates an empty set for rows of `columns`.
    pub fn new(columns: &Columns<'_>, options: &DataOptions) -> Result<Self, DataError> {
        let names = columns.value_names();
        let (room, width) = (&options.room(), names.len());
        if columns.are_integers() {
            return Ok(Self { constants: vec![None; width], names, sink: Samples::Integers(Sink::new(room)) });
        }
        let sink =
            if options.unrounded { Samples::Unrounded(Sink::new(room)) } else { Samples::Floats(Sink::new(room)) };
        Ok(Self { constants: constants(width, options)?, names, sink })
    }

    /// Returns the number of values in a sample.
    pub fn width(&self) -> usize {
        self.names.len()
    }

    /// Adds a row. `fault` is the fault that its reader found. Returns the reason if the row is bad.
    pub fn push(&mut self, row: &Row, mut fault: Option<String>) -> Result<Option<String>, DataError> {
        let values = || row.features.iter().zip(&self.constants).zip(&self.names);
        let mut found = |name: &String, problem: &dyn Fn(&str) -> String| {
            fault.get_or_insert_with(|| problem(&format!("column '{name}'")));
        };
        let mut float = |value: Number, constants: Option<(f64, f64)>, name| {
            let float = rounded(value, constants);
            if !float.is_finite() {
                found(name, &|column| not_finite(value, column, DROP));
            }
            float
        };
        match &mut self.sink {
            Samples::Floats(sink) => {
                let row: Vec<f32> =
                    values().map(|((value, constants), name)| float(*value, *constants, name)).collect();
                sink.push(&row)?;
            }
            Samples::Unrounded(sink) => {
                let row: Vec<f64> = values()
                    .map(|((value, constants), name)| {
                        float(*value, *constants, name);
                        constants.map_or_else(|| value.f64(), |(mean, std)| value.scaled(mean, std))
                    })
                    .collect();
                sink.push(&row)?;
            }
            Samples::Integers(sink) => {
                let integer = |((value, _), name): ((&Number, _), &String)| match value.integer() {
                    Ok(integer) => integer,
                    Err(problem) => {
                        found(name, &|column| format!("{column} is {value} where the model's input {problem}"));
                        0
                    }
                };
                let row: Vec<i64> = values().map(integer).collect();
                sink.push(&row)?;
            }
        }
        Ok(fault)
    }

    /// Returns all values, completely scaled.
    pub fn finish(self) -> Result<Values, DataError> {
        match self.sink {
            Samples::Integers(sink) => sink.values(),
            Samples::Floats(sink) => sink.values(),
            Samples::Unrounded(sink) => sink.values(),
        }
    }
}

/// Returns the constants of each of `width` values, by the axis of the model's channels.
fn constants(width: usize, options: &DataOptions) -> Result<Vec<Option<(f64, f64)>>, DataError> {
    let shape = options.inputs.first().map_or_else(|| vec![width], |input| input.shape.clone());
    let Ok(fit) = fit(&[width], &shape, options.layout) else {
        // A sample that does not fit is an error after all are read.
        return Ok(vec![None; width]);
    };
    let scaling = Scaling::new(options.normalize.as_ref(), &shape, options.raw_bytes)?;
    let place = |at: usize| match fit {
        Fit::AsIs => at,
        Fit::ChannelsFirst(channels) => at % channels * (width / channels) + at / channels,
    };
    Ok((0..width).map(|at| scaling.constants(place(at))).collect())
}
