//! Values of the flags on data: names, columns and their constants.

use crate::cli::args::text::FromText;
use damper_data::{DataError, Normalize, constant};
use std::fs;
use std::io;
use std::path::Path;

/// Largest number of classes that a number declares.
const MOST_CLASSES: usize = 100_000;

/// Names of classes, as the value of a single flag.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Names(pub Vec<String>);

/// The classes: their names, or only their number, for labels from 0.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Classes {
    pub names: Option<Vec<String>>,
    pub count: usize,
}

impl FromText for Classes {
    fn from_text(text: &str) -> Result<Self, String> {
        match text.parse::<usize>() {
            Ok(count @ 2..=MOST_CLASSES) => Ok(Self { names: None, count }),
            Ok(_) => Err(format!("give a number of classes from 2 to {MOST_CLASSES}, or their names")),
            Err(_) => Names::from_text(text).map(|Names(names)| Self { count: names.len(), names: Some(names) }),
        }
    }
}

/// Bounds of features. The means are the lower bounds.
#[derive(Clone, Debug)]
pub(in crate::cli) struct FeatureBounds(pub Normalize);

impl FromText for FeatureBounds {
    fn from_text(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|error: DataError| match error.to_string() {
            form if form.contains("MEAN") => "give LOW,HIGH, or LOW,LOW,...:HIGH,HIGH,...".into(),
            number => number,
        })
    }
}

/// A switch, also as a value in run files.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct YesNo(pub bool);

impl FromText for YesNo {
    fn from_text(text: &str) -> Result<Self, String> {
        match text {
            "yes" | "true" => Ok(Self(true)),
            "no" | "false" => Ok(Self(false)),
            _ => Err("give yes or no".into()),
        }
    }
}

/// Separator of fields.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Delimiter(pub u8);

impl FromText for Delimiter {
    fn from_text(text: &str) -> Result<Self, String> {
        match text.as_bytes() {
            b"tab" | b"\\t" => Ok(Self(b'\t')),
            [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n') => Ok(Self(*byte)),
            _ => Err("give one character, such as ';', or tab".into()),
        }
    }
}

impl FromText for Names {
    fn from_text(text: &str) -> Result<Self, String> {
        let names: Vec<String> = if text.contains(',') {
            list(text)
        } else {
            let lines = fs::read_to_string(Path::new(text)).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    "give names with commas between them, or a file with one a line; there is no such file".to_owned()
                }
                io::ErrorKind::InvalidData => "the file is not UTF-8 text; save it as UTF-8".to_owned(),
                _ => format!("the file cannot be read ({error})"),
            })?;
            // Some editors write a byte order mark at the start.
            lines
                .trim_start_matches('\u{feff}')
                .lines()
                .map(str::trim)
                .filter(|line| !line.is_empty())
                .map(String::from)
                .collect()
        };
        if names.len() < 2 || names.iter().any(String::is_empty) {
            return Err("give two names or more, none of them empty".into());
        }
        Ok(Names(names))
    }
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(|name| name.trim().to_owned()).collect()
}

/// A column and all its values.
pub(in crate::cli) type Categories = (String, Vec<String>);

impl FromText for Categories {
    fn from_text(text: &str) -> Result<Self, String> {
        let (column, values) = text.rsplit_once('=').ok_or("give COLUMN=VALUE,VALUE,...")?;
        let values = list(values);
        let repeated = values.iter().enumerate().any(|(at, value)| values[..at].contains(value));
        if values.len() < 2 || repeated {
            return Err("give two different values or more, each once".into());
        }
        Ok((column.trim().to_owned(), values))
    }
}

/// A column, its mean and its deviation.
pub(in crate::cli) type Scale = (String, f64, f64);

impl FromText for Scale {
    fn from_text(text: &str) -> Result<Self, String> {
        let wrong = || "give COLUMN=MEAN,STD".to_owned();
        let (column, constants) = text.rsplit_once('=').ok_or_else(wrong)?;
        let (mean, std) = constants.split_once(',').ok_or_else(wrong)?;
        let number = |text: &str| match text.trim().parse::<f64>() {
            Ok(_) => constant(text).map_err(|error| error.to_string()),
            Err(_) => Err(wrong()),
        };
        Ok((column.trim().to_owned(), number(mean)?, number(std)?))
    }
}
