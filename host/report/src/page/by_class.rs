//! Figures by class on the held-out samples, as tables of a page.

use super::frame::grouped;
use damper_train::{ClassFigures, ClassMetrics};

/// Maximum number of classes of a matrix on the page. A larger matrix is only in `report.json`.
const SHOWN: usize = 32;

/// A class and its figures, as the page shows them: labels, accuracy, precision, F1, AUC.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) figures: [String; 5],
}

/// Confusion matrix.
pub(super) enum Confusion {
    /// Outputs that do not exclude each other have no confusion matrix.
    None,
    /// Number of classes of a matrix that is too large for a page.
    Large(usize),
    Shown(Vec<HeatRow>),
}

/// A row of the heat map: the labels of a class by predicted class.
pub(super) struct HeatRow {
    pub(super) name: String,
    pub(super) cells: Vec<Cell>,
}

pub(super) struct Cell {
    pub(super) count: u64,
    /// `good` or `bad`.
    pub(super) color: &'static str,
    /// Percentage of the colour.
    pub(super) percent: u64,
}

/// Returns the unit of a row.
pub(super) fn unit(found: &ClassMetrics) -> &'static str {
    if found.confusion.is_empty() { "output" } else { "class" }
}

/// Returns the name of a class, or its index if it has none.
pub(super) fn name_of(class: &ClassFigures) -> String {
    class.name.clone().unwrap_or_else(|| class.class.to_string())
}

/// Returns the rows of the classes, then the row of their means.
pub(super) fn rows(found: &ClassMetrics) -> Vec<Row> {
    let row = |name: String, labels: u64, figures: [Option<f64>; 4]| {
        let [accuracy, precision, f1, auc] =
            figures.map(|figure| figure.map_or("–".into(), |figure| format!("{figure:.4}")));
        Row { name, figures: [grouped(labels, '\u{202f}'), accuracy, precision, f1, auc] }
    };
    let classes = found.classes.iter();
    let classes =
        classes.map(|class| row(name_of(class), class.labels, [class.accuracy, class.precision, class.f1, class.auc]));
    let mean = row("macro mean".into(), found.labels, [None, None, found.macro_f1, found.macro_auc]);
    classes.chain([mean]).collect()
}

/// Returns the matrix as a heat map: each row's shares.
pub(super) fn confusion(found: &ClassMetrics) -> Confusion {
    match found.confusion.len() {
        0 => return Confusion::None,
        classes if classes > SHOWN => return Confusion::Large(classes),
        _ => {}
    }
    let row = |(label, row): (usize, &Vec<u64>)| {
        let all = row.iter().sum::<u64>().max(1);
        let cell = |(answer, count): (usize, &u64)| Cell {
            count: *count,
            color: if label == answer { "good" } else { "bad" },
            percent: (100 * count).div_ceil(all) * 6 / 10,
        };
        HeatRow {
            name: found.classes.get(label).map_or_else(|| label.to_string(), name_of),
            cells: row.iter().enumerate().map(cell).collect(),
        }
    };
    Confusion::Shown(found.confusion.iter().enumerate().map(row).collect())
}
