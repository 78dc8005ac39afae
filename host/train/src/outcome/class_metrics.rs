//! Figures by class on held-out samples: confusion matrix, accuracy, precision, F1 and the area under the ROC curve.
//!
//! With `tp` the right predictions of a class, `fp` other labels predicted as this class, and `fn` its labels predicted
//! otherwise:
//!
//! ```text
//! accuracy = tp/(tp+fn)   precision = tp/(tp+fp)   F1 = 2tp/(2tp+fp+fn)
//! AUC = (pairs of one of the class and one of the rest with the higher score for the first, ties one half) / pairs
//! ```
//!
//! - The score of a class is its log-softmax, rounded to f32 so that equal shares tie. For an output that predicts by
//!   its sign, the score is the output.
//! - A class without labels has no accuracy, without predictions no precision, and without both no F1.
//! - A class has no AUC if all or none of the labels are its own, or if a score is not a number.
//! - A macro mean is over the classes that have the figure.
//!
//! # Privacy
//!
//! All figures are exact functions of held-out samples, so only exact test metrics release them.

use serde::{Deserialize, Serialize};

/// With more classes, figures by class are left out, because their matrix would fill most of the report.
pub(crate) const MOST_CLASSES: usize = 256;
/// With more scores, the AUC is left out, because scores are stored in memory.
const MOST_SCORES: usize = 1 << 24;

/// Figures by class.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ClassMetrics {
    /// Number of labels.
    pub labels: u64,
    /// Mean F1 over the classes that have an F1.
    pub macro_f1: Option<f64>,
    /// Mean one-versus-rest AUC over the classes that have an AUC.
    pub macro_auc: Option<f64>,
    /// Figures of each class. For a loss with several outputs that predict by their sign, figures of each output.
    pub classes: Vec<ClassFigures>,
    /// Number of labels by class (row) and predicted class (column). Empty for several outputs, which do not exclude
    /// each other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confusion: Vec<Vec<u64>>,
}

impl ClassMetrics {
    /// Adds the names of the classes. Several outputs, which have no matrix, are not classes.
    #[must_use]
    pub fn named(mut self, names: Option<&[String]>) -> Self {
        if !self.confusion.is_empty() {
            for (class, name) in self.classes.iter_mut().zip(names.unwrap_or_default()) {
                class.name = Some(name.clone());
            }
        }
        self
    }
}

/// Figures of one class.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ClassFigures {
    /// The class, or the output, counted from 0.
    pub class: usize,
    /// The name of the class, if classes have names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Number of labels of this class.
    pub labels: u64,
    /// Number of predictions of this class.
    pub answers: u64,
    /// Number of right predictions.
    pub right: u64,
    /// Share of its labels that are predicted right, the recall.
    pub accuracy: Option<f64>,
    /// Share of its predictions that are right.
    pub precision: Option<f64>,
    /// Harmonic mean of recall and precision.
    pub f1: Option<f64>,
    /// One-versus-rest area under the ROC curve.
    pub auc: Option<f64>,
}

/// Collects labels, predictions and scores. A class label has a column per class. An output that predicts by its sign
/// is a column.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Counts by label and prediction.
    counts: Vec<u64>,
    classes: usize,
    /// For each column, the scores, and whether the label is of the class.
    scores: Vec<Vec<(f32, bool)>>,
    /// False after the scores exceeded the limit.
    scored: bool,
    columns: Columns,
}

/// The meaning of a column of scores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Columns {
    /// A class of labels that exclude each other.
    Classes,
    /// An output with a label of its own.
    Outputs,
}

impl Tally {
    /// Creates a tally for labels of this many classes that exclude each other.
    pub(crate) fn of_classes(classes: usize) -> Self {
        let (counts, scores) = (vec![0; classes * classes], vec![vec![]; classes]);
        Self { counts, classes, scores, scored: true, columns: Columns::Classes }
    }

    /// Creates a tally for this many outputs, each of which predicts yes or no.
    pub(crate) fn of_outputs(outputs: usize) -> Self {
        let (counts, scores) = (vec![0; 4 * outputs], vec![vec![]; outputs]);
        Self { counts, classes: 2, scores, scored: true, columns: Columns::Outputs }
    }

    /// Adds a label below the number of classes, its prediction and its `classes` logits.
    pub(crate) fn add_class(&mut self, label: usize, answer: usize, logits: impl Iterator<Item = f32> + Clone) {
        self.counts[label * self.classes + answer] += 1;
        let logits = logits.map(f64::from);
        let most = logits.clone().fold(f64::NEG_INFINITY, f64::max);
        let total = logits.clone().map(|logit| (logit - most).exp()).sum::<f64>().ln() + most;
        for (class, logit) in logits.enumerate() {
            self.hold(class, (logit - total) as f32, class == label);
        }
    }

    /// Adds the label of output `output`, its prediction and its score.
    pub(crate) fn add_output(&mut self, output: usize, label: bool, answer: bool, score: f32) {
        self.counts[4 * output + 2 * usize::from(label) + usize::from(answer)] += 1;
        self.hold(output, score, label);
    }

    /// Stores a score of a column, as long as all fit.
    fn hold(&mut self, column: usize, score: f32, positive: bool) {
        if !self.scored {
            return;
        }
        self.scores[column].push((score, positive));
        if self.scores[column].len() * self.scores.len() > MOST_SCORES {
            self.scores.iter_mut().for_each(|scores| *scores = vec![]);
            self.scored = false;
        }
    }

    /// Computes the figures.
    pub(crate) fn metrics(mut self) -> ClassMetrics {
        let scored = self.scored;
        let mut areas: Vec<Option<f64>> =
            self.scores.iter_mut().map(|scores| area(scores).filter(|_| scored)).collect();
        let size = self.classes;
        let square = |counts: &[u64]| -> Vec<Vec<u64>> { counts.chunks(size).map(<[u64]>::to_vec).collect() };
        let one = |class: usize, matrix: &[Vec<u64>], of: usize, auc: Option<f64>| {
            let right = matrix[of][of];
            let labels = matrix[of].iter().sum();
            let answers = matrix.iter().map(|row| row[of]).sum();
            let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
            ClassFigures {
                class,
                name: None,
                labels,
                answers,
                right,
                accuracy: share(right, labels),
                precision: share(right, answers),
                f1: share(2 * right, labels + answers),
                auc,
            }
        };
        let (classes, confusion): (Vec<ClassFigures>, Vec<Vec<u64>>) = match (self.columns, areas.len()) {
            (Columns::Outputs, 1) => {
                // Yes and no exclude each other, so they share one area.
                let area = areas.pop().flatten();
                let matrix = square(&self.counts);
                ((0..2).map(|class| one(class, &matrix, class, area)).collect(), matrix)
            }
            (Columns::Outputs, _) => {
                let matrices = self.counts.chunks(4).map(square);
                let each = matrices.zip(areas).enumerate();
                (each.map(|(output, (matrix, area))| one(output, &matrix, 1, area)).collect(), vec![])
            }
            (Columns::Classes, _) => {
                let matrix = square(&self.counts);
                let each = areas.into_iter().enumerate();
                (each.map(|(class, area)| one(class, &matrix, class, area)).collect(), matrix)
            }
        };
        let labels = self.counts.iter().sum();
        ClassMetrics {
            labels,
            macro_f1: mean(classes.iter().map(|class| class.f1)),
            macro_auc: mean(classes.iter().map(|class| class.auc)),
            classes,
            confusion,
        }
    }
}

/// Returns the mean of the figures that exist.
fn mean(figures: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let found: Vec<f64> = figures.flatten().collect();
    (!found.is_empty()).then(|| found.iter().sum::<f64>() / found.len() as f64)
}

/// Returns the area under the ROC curve: the share of pairs with the positive above the negative, in integers up to the
/// last division. Returns `None` if a class is absent or a score is not a number.
fn area(scores: &mut [(f32, bool)]) -> Option<f64> {
    if scores.iter().any(|(score, _)| score.is_nan()) {
        return None;
    }
    scores.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let (mut below, mut twice) = (0u128, 0u128);
    for ties in scores.chunk_by(|a, b| a.0 == b.0) {
        let positives = ties.iter().filter(|(_, positive)| *positive).count() as u128;
        let negatives = ties.len() as u128 - positives;
        twice += positives * (2 * below + negatives);
        below += negatives;
    }
    let positives = scores.len() as u128 - below;
    (positives > 0 && below > 0).then(|| twice as f64 / (2 * positives * below) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logits of four classes, in halves so that scores tie. The labels are 0 to 2.
    const LOGITS: [[f32; 4]; 24] = [
        [0.0, 0.5, 0.5, -1.0],
        [-0.5, 0.0, 0.0, 1.5],
        [-0.5, -0.5, 1.5, 0.5],
        [1.0, -1.0, 0.0, 0.5],
        [-1.5, -0.5, -1.0, -1.5],
        [-1.0, 0.0, -1.5, 0.5],
        [0.0, 1.0, -2.5, -0.5],
        [0.0, 0.0, -0.5, -0.5],
        [0.0, -1.0, 1.0, -1.0],
        [0.0, 2.0, -0.5, 0.0],
        [0.0, 0.0, 0.0, 0.0],
        [1.5, -0.5, 1.0, 0.0],
        [0.5, 2.0, 1.0, -1.0],
        [0.0, 1.5, 0.0, 0.5],
        [0.0, 1.5, 1.5, -0.5],
        [0.0, -0.5, 1.0, -1.0],
        [-0.5, 0.0, 2.0, 1.0],
        [-1.5, 0.0, 0.5, -2.0],
        [0.5, 0.0, 1.5, 0.5],
        [-0.5, 0.5, -0.5, 1.5],
        [0.5, -0.5, 0.5, 0.0],
        [0.0, -1.0, 1.0, -0.5],
        [1.0, 0.5, 1.0, 0.5],
        [-0.5, 2.0, 0.0, 0.5],
    ];
    const LABELS: [usize; 24] = [2, 1, 2, 0, 2, 0, 1, 2, 0, 1, 2, 1, 0, 1, 1, 2, 2, 1, 0, 1, 0, 2, 2, 1];
    const SIGNS: [(f32, bool); 20] = [
        (0.0, false),
        (0.0, true),
        (0.5, false),
        (0.5, true),
        (-1.0, false),
        (0.0, false),
        (0.0, true),
        (-1.0, true),
        (0.5, true),
        (-1.0, false),
        (1.0, true),
        (0.0, false),
        (0.0, true),
        (-0.5, false),
        (0.0, false),
        (-2.0, false),
        (-1.0, false),
        (0.5, false),
        (-2.0, false),
        (1.0, true),
    ];

    fn largest(logits: &[f32]) -> usize {
        (0..logits.len()).fold(0, |best, i| if logits[i] > logits[best] { i } else { best })
    }

    fn of_classes(logits: &[[f32; 4]], labels: &[usize]) -> ClassMetrics {
        let mut tally = Tally::of_classes(4);
        for (logits, label) in logits.iter().zip(labels) {
            tally.add_class(*label, largest(logits), logits.iter().copied());
        }
        tally.metrics()
    }

    fn near(found: Option<f64>, exact: f64) {
        assert!(found.is_some_and(|found| (found - exact).abs() < 1e-12), "{found:?} {exact}");
    }

    /// Compares all pairs.
    fn slow_area(scores: &[(f32, bool)]) -> Option<f64> {
        let of = |positive| scores.iter().filter(move |(_, is)| *is == positive).map(|(score, _)| *score);
        let pairs = of(true).flat_map(|a| of(false).map(move |b| (a, b)));
        let (wins, count) = pairs.fold((0.0, 0.0), |(wins, count), (a, b)| {
            (
                wins + if a > b {
                    1.0
                } else if a == b {
                    0.5
                } else {
                    0.0
                },
                count + 1.0,
            )
        });
        (count > 0.0).then(|| wins / count)
    }

    /// Reference values from scikit-learn 1.9.1: `confusion_matrix`, `recall_score`, `precision_score` and `f1_score`
    /// with `average=None` and `labels=range(4)`, `f1_score(average='macro')`, and `roc_auc_score(labels == c,
    /// log_softmax[:, c].astype(float32))`.
    #[test]
    fn classes_are_as_scikit_learn_has_them() {
        type Figure = fn(&ClassFigures) -> Option<f64>;
        let found = of_classes(&LOGITS, &LABELS);
        assert_eq!(found.confusion, [[2, 1, 2, 1], [1, 5, 1, 2], [3, 2, 4, 0], [0, 0, 0, 0]]);
        let nan = f64::NAN;
        let columns: [([f64; 4], Figure); 4] = [
            ([1.0 / 3.0, 0.555_555_555_555_555_6, 0.444_444_444_444_444_4, nan], |class| class.accuracy),
            ([1.0 / 3.0, 0.625, 0.571_428_571_428_571_4, 0.0], |class| class.precision),
            ([1.0 / 3.0, 0.588_235_294_117_647_1, 0.5, 0.0], |class| class.f1),
            ([0.685_185_185_185_185_2, 0.755_555_555_555_555_5, 0.774_074_074_074_074, nan], |class| class.auc),
        ];
        for (exact, of) in columns {
            for (class, exact) in found.classes.iter().zip(exact) {
                if exact.is_nan() { assert_eq!(of(class), None) } else { near(of(class), exact) }
            }
        }
        near(found.macro_f1, 0.355_392_156_862_745_1);
        assert_eq!(
            (found.labels, found.classes[1].labels, found.classes[3].answers, found.classes[2].right),
            (24, 9, 3, 4)
        );
    }

    /// The same reference values for `SIGNS`, with `f1_score(average='macro')` over no and yes.
    #[test]
    fn yes_and_no_are_as_scikit_learn_has_them() {
        let mut tally = Tally::of_outputs(1);
        SIGNS.iter().for_each(|(score, label)| tally.add_output(0, *label, *score > 0.0, *score));
        let found = tally.metrics();
        assert_eq!(found.confusion, [[10, 2], [4, 4]]);
        let yes = &found.classes[1];
        near(yes.f1, 0.571_428_571_428_571_4);
        near(found.macro_f1, 0.670_329_670_329_670_4);
        near(yes.auc, 0.765_625);
        near(found.macro_auc, 0.765_625);
        near(yes.precision, 2.0 / 3.0);
        near(yes.accuracy, 0.5);
    }

    /// Three outputs of ten samples, with `f1_score`, `recall_score`, `precision_score` and `roc_auc_score` at
    /// `average=None`.
    #[test]
    fn outputs_are_as_scikit_learn_has_them() {
        let scores = [
            [1.0, 0.0, -0.5],
            [-0.5, -0.5, 0.0],
            [-0.5, -0.5, -1.5],
            [-1.0, 1.5, -0.5],
            [-1.0, 0.5, 1.5],
            [-1.5, 0.0, -0.5],
            [-2.0, 0.5, 0.0],
            [0.0, -1.0, 0.5],
            [-0.5, 0.0, -1.0],
            [-1.0, 1.5, -0.5],
        ];
        let labels = [
            [1, 0, 0],
            [0, 1, 0],
            [0, 0, 0],
            [0, 1, 0],
            [0, 1, 1],
            [0, 1, 1],
            [0, 1, 0],
            [1, 0, 1],
            [0, 1, 1],
            [1, 1, 0],
        ];
        let mut tally = Tally::of_outputs(3);
        for (scores, labels) in scores.iter().zip(labels) {
            (0..3).for_each(|at| tally.add_output(at, labels[at] == 1, scores[at] > 0.0, scores[at]));
        }
        let found = tally.metrics();
        assert!(found.confusion.is_empty());
        let exact = [
            [0.5, 1.0 / 3.0, 1.0, 0.809_523_809_523_809_5],
            [0.727_272_727_272_727_3, 0.571_428_571_428_571_4, 1.0, 0.880_952_380_952_380_9],
            [0.666_666_666_666_666_6, 0.5, 1.0, 0.645_833_333_333_333_3],
        ];
        for (class, exact) in found.classes.iter().zip(exact) {
            for (found, exact) in [class.f1, class.accuracy, class.precision, class.auc].into_iter().zip(exact) {
                near(found, exact);
            }
        }
        near(found.macro_f1, 0.631_313_131_313_131_4);
        near(found.macro_auc, 0.778_769_841_269_841_3);
    }

    #[test]
    fn areas_are_those_of_all_pairs() {
        let mut state = 1u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for size in 1..40 {
            let mut scores: Vec<(f32, bool)> = (0..size).map(|_| (draw(7) as f32 - 3.0, draw(2) == 1)).collect();
            let slow = slow_area(&scores);
            match slow {
                Some(slow) => near(area(&mut scores), slow),
                None => assert_eq!(area(&mut scores), None),
            }
        }
        assert_eq!(
            area(&mut [(f32::NEG_INFINITY, false), (f32::INFINITY, true), (0.0, true), (-0.0, false)]),
            Some(0.875)
        );
        assert_eq!(area(&mut []), None);
    }

    /// Covers a single class, outputs that are not numbers, and more scores than are stored.
    #[test]
    fn figures_that_there_are_not_are_none() {
        let one = of_classes(&LOGITS[..3], &[2, 2, 2]);
        assert!(one.classes.iter().all(|class| class.auc.is_none()) && one.macro_auc.is_none());
        assert_eq!((one.classes[0].accuracy, one.classes[0].precision, one.classes[0].f1), (None, None, None));
        let mut logits = LOGITS;
        logits[5][1] = f32::NAN;
        let broken = of_classes(&logits, &LABELS);
        assert!(broken.macro_auc.is_none() && broken.macro_f1.is_some() && broken.labels == 24);
        let none = of_classes(&[], &[]);
        assert_eq!((none.labels, none.macro_f1, none.macro_auc), (0, None, None));
        let mut full = Tally::of_outputs(1);
        (0..=MOST_SCORES).for_each(|at| full.add_output(0, at % 2 == 0, true, at as f32));
        let full = full.metrics();
        assert_eq!((full.labels, full.classes[1].auc), (MOST_SCORES as u64 + 1, None));
    }
}
