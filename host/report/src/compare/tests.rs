//! Properties of a comparison, with a trainer that does not train.

#[path = "../../../tests/support/markup.rs"]
mod markup;

use super::*;
use markup::assert_balanced;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// A trainer that derives figures from the flags, and counts calls.
#[derive(Default)]
struct Fake {
    trained: Vec<Task>,
    positions: Vec<Position>,
    /// True to return only losses.
    no_accuracy: bool,
}

/// Returns the value of a flag.
fn value(task: &Task, name: &str) -> f64 {
    let flag = task.flags.iter().find_map(|flag| flag.strip_prefix(&format!("--{name}=")));
    flag.and_then(|value| value.parse::<f64>().ok()).unwrap_or(0.0)
}

impl Trainer for Mutex<Fake> {
    type Started = ();

    fn start(&self, _: &Task) -> Result<(), String> {
        Ok(())
    }

    fn refused(&self, _: &Task, _: &Position, _: &str) {}

    fn train(&self, task: &Task, (): (), at: &Position) -> Result<ComparisonFigures, String> {
        let mut fake = self.lock().unwrap();
        fake.trained.push(task.clone());
        fake.positions.push(*at);
        fake.figures(task)
    }
}

impl Fake {
    fn figures(&self, task: &Task) -> Result<ComparisonFigures, String> {
        let value = |name| value(task, name);
        if value("lr") > 100.0 {
            return Err("--lr <too>\nlarge".into());
        }
        // Best at lr = epsilon. Seeds add a small offset.
        let accuracy = 0.5 - 0.01 * (value("lr") - value("epsilon")).abs() + 0.001 * value("seed");
        Ok(ComparisonFigures {
            test_accuracy: (!self.no_accuracy).then_some(accuracy),
            test_loss: Some(1.0 - accuracy),
            epsilon: (task.purpose == ComparisonPurpose::Final).then_some(value("epsilon")),
            delta: 1e-5,
            noise_multiplier: 1.0,
            steps: 10,
            seconds: 2.0,
            backend: "fake".into(),
            params_digest: "00".into(),
            parameters: 3,
            training: serde_json::json!({"lr": value("lr")}),
            search: None,
        })
    }
}

fn method(label: &str, rates: &[f64]) -> ComparisonMethod {
    let setting = |lr: &f64| Setting { text: format!("lr = {lr}"), flags: vec![format!("--lr={lr}")] };
    let model = Setting { text: "model = \"m\"".into(), flags: vec!["--model-file=m".into()] };
    ComparisonMethod {
        label: label.into(),
        settings: vec![vec![model], rates.iter().map(setting).collect()],
        own: vec![format!("lr = {rates:?}")],
        model: "ab".into(),
    }
}

fn plan(methods: Vec<ComparisonMethod>) -> ComparisonPlan {
    ComparisonPlan {
        budgets: Budgets { flag: "epsilon", values: vec![1.0, 4.0] },
        repeats: Repeats::Seeds(vec![1, 2, 3]),
        methods,
        shared: vec!["model = \"m\"".into()],
        search: None,
    }
}

fn jobs(count: usize, in_order: bool) -> Jobs {
    Jobs { count: NonZeroUsize::new(count).unwrap(), in_order }
}

fn with<T: Trainer>(plan: &ComparisonPlan, folder: &TempDir, trainer: &T, jobs: Jobs) -> Comparison {
    run(plan, &mut ComparisonJournal::open(&folder.path().join("runs.jsonl")).unwrap(), trainer, jobs).unwrap()
}

fn compare(plan: &ComparisonPlan, folder: &TempDir, fake: &mut Fake) -> Comparison {
    let trainer = Mutex::new(std::mem::take(fake));
    let comparison = with(plan, folder, &trainer, jobs(1, false));
    *fake = trainer.into_inner().unwrap();
    comparison
}

/// A trainer with a run-dependent duration and a budget. A rejected run returns its charge.
struct Slow {
    left: Mutex<f64>,
    most: AtomicUsize,
    running: AtomicUsize,
    trained: Mutex<Vec<Task>>,
}

impl Slow {
    fn new(budget: f64) -> Self {
        Self {
            left: Mutex::new(budget),
            most: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            trained: Mutex::new(vec![]),
        }
    }
}

impl Trainer for Slow {
    type Started = f64;

    fn start(&self, task: &Task) -> Result<f64, String> {
        let (cost, mut left) = (value(task, "epsilon"), self.left.lock().unwrap());
        if cost > *left {
            return Err("the budget is spent".into());
        }
        *left -= cost;
        Ok(cost)
    }

    fn refused(&self, _: &Task, _: &Position, _: &str) {}

    fn train(&self, task: &Task, cost: f64, _: &Position) -> Result<ComparisonFigures, String> {
        let running = 1 + self.running.fetch_add(1, Ordering::SeqCst);
        self.most.fetch_max(running, Ordering::SeqCst);
        self.trained.lock().unwrap().push(task.clone());
        let millis = (7.0 * value(task, "lr") + 3.0 * value(task, "seed") + 5.0 * cost) as u64 % 11;
        thread::sleep(Duration::from_millis(millis));
        let result = Fake::default().figures(task);
        if result.is_err() {
            *self.left.lock().unwrap() += cost;
        }
        self.running.fetch_sub(1, Ordering::SeqCst);
        result
    }
}

/// A plan with tuned, rejected and equal runs.
fn mixed() -> ComparisonPlan {
    plan(vec![
        method("a", &[1.0, 4.0, 200.0]),
        method("no", &[200.0, 300.0]),
        method("b", &[1.0]),
        method("equal to b", &[1.0]),
        method("c", &[3.0, 2.0]),
    ])
}

/// Each repeat of a private search is one run with all candidates.
#[test]
fn searches_take_the_place_of_tuning() {
    let search = SearchPlan { candidates: "geometric:0.1".parse().unwrap(), score: Score::Private };
    let plan =
        ComparisonPlan { search: Some(search), ..plan(vec![method("a", &[1.0, 4.0, 8.0]), method("b", &[1.0])]) };
    assert_eq!(plan.runs(), 12);
    let (folder, mut fake) = (tempfile::tempdir().unwrap(), Fake::default());
    let comparison = compare(&plan, &folder, &mut fake);
    assert_eq!((fake.trained.len(), comparison.tuning.clone()), (12, None));
    let of_a: Vec<&Task> = fake.trained.iter().filter(|task| task.label == "a").collect();
    assert_eq!((of_a.len(), of_a[0].candidates.len(), of_a[0].purpose), (6, 3, ComparisonPurpose::Final));
    assert_eq!(of_a[0].candidates[1], ["--lr=4", "--model-file=m"]);
    assert_eq!(of_a[0].flags, ["--epsilon=1", "--seed=1", "--tune-private=geometric:0.1", "--tune-score=private"]);
    assert!(fake.trained.iter().filter(|task| task.label == "b").all(|task| task.candidates.is_empty()));
    assert_eq!(plan.settings_of("a", 2), ["lr = 8"]);
    assert!(comparison.notes.iter().any(|note| note.contains("Tuning was private") && note.contains("geometric:0.1")));
    // Another distribution, or another list, is another search.
    for other in [
        ComparisonPlan {
            search: Some(SearchPlan { candidates: "geometric:0.2".parse().unwrap(), ..search }),
            ..plan.clone()
        },
        ComparisonPlan { methods: vec![method("a", &[1.0, 4.0])], ..plan.clone() },
    ] {
        let mut fake = Fake::default();
        compare(&other, &folder, &mut fake);
        assert_eq!(fake.trained.len(), 6, "{other:?}");
    }
}

#[test]
fn jobs_do_not_change_the_result() {
    for (budget, in_order) in [(f64::INFINITY, false), (30.0, true), (41.5, true), (7.0, true)] {
        let serial = {
            let folder = tempfile::tempdir().unwrap();
            with(&mixed(), &folder, &Slow::new(budget), jobs(1, in_order))
        };
        for count in [2, 3, 8] {
            let (folder, slow) = (tempfile::tempdir().unwrap(), Slow::new(budget));
            assert_eq!(with(&mixed(), &folder, &slow, jobs(count, in_order)), serial, "{count} {budget}");
            let most = slow.most.load(Ordering::SeqCst);
            assert!(most <= count && (most > 1 || budget < 10.0), "{count} {budget}: {most}");
        }
    }
}

#[test]
fn equal_runs_run_once_in_parallel() {
    let (folder, slow) = (tempfile::tempdir().unwrap(), Slow::new(f64::INFINITY));
    with(&mixed(), &folder, &slow, jobs(8, false));
    let trained = slow.trained.into_inner().unwrap();
    for (at, task) in trained.iter().enumerate() {
        let again = trained[..at].iter().any(|other| other.is_same_run(task));
        assert!(!again || value(task, "lr") > 100.0, "{task:?}");
    }
}

#[test]
fn parallel_runs_are_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runs.jsonl");
    let first = with(&mixed(), &folder, &Slow::new(f64::INFINITY), jobs(3, false));
    let lines: Vec<String> = fs::read_to_string(&file).unwrap().lines().map(str::to_owned).collect();
    fs::write(&file, lines.iter().step_by(3).map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    assert_eq!(with(&mixed(), &folder, &Slow::new(f64::INFINITY), jobs(2, false)), first);
}

struct Panics;

impl Trainer for Panics {
    type Started = ();

    fn start(&self, _: &Task) -> Result<(), String> {
        Ok(())
    }

    fn refused(&self, _: &Task, _: &Position, _: &str) {}

    fn train(&self, task: &Task, (): (), _: &Position) -> Result<ComparisonFigures, String> {
        assert!(value(task, "lr") < 4.0, "on purpose");
        Fake::default().figures(task)
    }
}

/// The other threads do not wait for the panicked thread.
#[test]
fn a_panic_in_a_run_ends_the_comparison() {
    let folder = tempfile::tempdir().unwrap();
    let ended = std::panic::catch_unwind(|| with(&mixed(), &folder, &Panics, jobs(3, true)));
    assert!(ended.is_err());
}

// Every method runs once at every budget with every seed.
#[test]
fn runs_every_method_budget_and_seed() {
    let folder = tempfile::tempdir().unwrap();
    let mut fake = Fake::default();
    let plan = plan(vec![method("a", &[1.0]), method("b", &[2.0])]);
    let found = compare(&plan, &folder, &mut fake);
    assert_eq!((fake.trained.len(), plan.runs()), (12, 12));
    let cell = &found.methods[0].cells[0];
    assert!((cell.mean.unwrap() - 0.502).abs() < 1e-12 && (cell.std.unwrap() - 0.001).abs() < 1e-12);
    assert_eq!((cell.n, cell.mark), (3, Mark::Best));
    // 0.01 below, with a deviation of 0.001.
    assert_eq!(found.methods[1].cells[0].mark, Mark::None);
    assert_eq!(found.methods[1].cells[1].mark, Mark::Best);
    assert_eq!(found.methods[0].seconds, Some(2.0));
    let last = fake.positions.last().unwrap();
    assert_eq!((last.number, last.total, last.seconds_left), (12, 12, Some(2.0)));
    assert_eq!(fake.positions[0].seconds_left, None);
}

#[test]
fn tie_is_within_one_deviation_of_best() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(vec![method("best", &[1.0]), method("near", &[1.05]), method("far", &[1.5])]);
    let found = compare(&plan, &folder, &mut Fake::default());
    let marks: Vec<Mark> = found.methods.iter().map(|row| row.cells[0].mark).collect();
    assert_eq!(marks, [Mark::Best, Mark::Tied, Mark::None]);
}

// Without accuracy, the smallest loss is best.
#[test]
fn ranks_by_loss_without_accuracy() {
    let folder = tempfile::tempdir().unwrap();
    let mut fake = Fake { no_accuracy: true, ..Fake::default() };
    let found = compare(&plan(vec![method("b", &[3.0]), method("a", &[1.0, 2.0])]), &folder, &mut fake);
    assert_eq!(found.metric, Metric::TestLoss);
    assert_eq!(found.methods[1].cells[0].mark, Mark::Best);
    assert_eq!(found.methods[1].cells[0].chosen.as_ref().unwrap().settings, ["lr = 1"]);
    assert!(text(&found).contains("0.4980 ± 0.0010 (3) *"), "{}", text(&found));
}

// A stopped comparison runs only what is missing from its journal.
#[test]
fn stopped_comparison_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runs.jsonl");
    let plan = plan(vec![method("a", &[1.0, 2.0]), method("b", &[3.0])]);
    let first = compare(&plan, &folder, &mut Fake::default());
    let lines: Vec<String> = fs::read_to_string(&file).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), plan.runs());
    // Every other line is removed, and the last line is truncated.
    let mut half: String = lines.iter().step_by(2).map(|line| format!("{line}\n")).collect();
    half.push_str(&lines[1][..40]);
    fs::write(&file, half).unwrap();
    let mut fake = Fake::default();
    assert_eq!(compare(&plan, &folder, &mut fake), first);
    assert_eq!(fake.trained.len(), plan.runs() / 2);
    let mut fake = Fake::default();
    assert_eq!(compare(&plan, &folder, &mut fake), first);
    assert!(fake.trained.is_empty());
}

// Another setting, seed or model is another run. Another name is not.
#[test]
fn changed_setting_is_another_run() {
    let folder = tempfile::tempdir().unwrap();
    let count = |plan: &ComparisonPlan| {
        let mut fake = Fake::default();
        compare(plan, &folder, &mut fake);
        fake.trained.len()
    };
    let base = plan(vec![method("a", &[1.0])]);
    assert_eq!(count(&base), 6);
    assert_eq!(count(&plan(vec![method("renamed", &[1.0])])), 0);
    assert_eq!(count(&plan(vec![method("a", &[2.0])])), 6);
    assert_eq!(count(&ComparisonPlan { repeats: Repeats::Seeds(vec![3, 4]), ..base.clone() }), 2);
    assert_eq!(count(&ComparisonPlan { repeats: Repeats::Keys(2), ..base.clone() }), 4);
    assert_eq!(count(&ComparisonPlan { repeats: Repeats::Keys(3), ..base.clone() }), 2);
    let model = ComparisonMethod { model: "cd".into(), ..base.methods[0].clone() };
    assert_eq!(count(&ComparisonPlan { methods: vec![model], ..base }), 6);
}

// Tuning selects a setting for each budget, and all seeds use it.
#[test]
fn tuning_is_per_budget_for_all_seeds() {
    let folder = tempfile::tempdir().unwrap();
    let mut fake = Fake::default();
    let plan = plan(vec![method("a", &[1.0, 4.0, 200.0])]);
    let found = compare(&plan, &folder, &mut fake);
    let chosen = |cell: usize| found.methods[0].cells[cell].chosen.clone().unwrap();
    assert_eq!((chosen(0).settings, chosen(0).tried), (vec!["lr = 1".to_owned()], 2));
    assert_eq!(chosen(1).settings, ["lr = 4"]);
    for task in &fake.trained {
        match task.purpose {
            ComparisonPurpose::Tuning => assert_eq!(task.seed, Some(1)),
            ComparisonPurpose::Final => assert!(task.flags.contains(&format!("--lr={}", task.budget)), "{task:?}"),
        }
    }
    assert_eq!(found.tuning.as_ref().unwrap().runs, 4);
    assert!(text(&found).contains("refused while tuning: a, lr = 200 at epsilon 1, 4: --lr"), "{}", text(&found));
    assert!(found.notes.iter().any(|note| note.contains("Tuning was not private")));
    assert!(text(&found).contains("chosen: a: lr = 1 at epsilon 1; lr = 4 at epsilon 4"));
}

// A rejected method is shown and does not stop the others.
#[test]
fn rejected_method_is_shown_and_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(vec![method("no", &[200.0]), method("nothing", &[200.0, 300.0]), method("b", &[1.0])]);
    let mut fake = Fake::default();
    let found = compare(&plan, &folder, &mut fake);
    assert_eq!(found.methods[2].cells[1].n, 3);
    assert_eq!(fake.positions.last().unwrap().number, plan.runs());
    for output in [text(&found), markdown(&found), html(&found)] {
        assert!(output.contains("refused: no at epsilon 1, 4: --lr"), "{output}");
        assert!(output.contains("refused: nothing at epsilon 1, 4: --lr"), "{output}");
    }
    assert_eq!(fs::read_to_string(folder.path().join("runs.jsonl")).unwrap().lines().count(), 6);
}

// The page has balanced and escaped tags, and loads nothing.
#[test]
fn html_is_balanced_and_self_contained() {
    let folder = tempfile::tempdir().unwrap();
    let name = "<script>\"a\" & b";
    let mut methods: Vec<ComparisonMethod> = (0..10).map(|i| method(&format!("{name} {i}"), &[1.0])).collect();
    methods.push(method("no", &[200.0]));
    let many = compare(&plan(methods), &folder, &mut Fake::default());
    let one_point = ComparisonPlan {
        budgets: Budgets { flag: "noise-multiplier", values: vec![2.0] },
        repeats: Repeats::Keys(1),
        ..plan(vec![method(name, &[1.0])])
    };
    let one = compare(&one_point, &folder, &mut Fake::default());
    assert!(text(&one).contains("& b: 0.0000 at noise multiplier 2"), "{}", text(&one));
    let none = compare(&plan(vec![method(name, &[200.0])]), &folder, &mut Fake::default());
    for comparison in [many, one, none] {
        let page = html(&comparison);
        assert_balanced(&page);
        assert_eq!(page.matches("<th scope=\"row\">").count(), comparison.methods.len());
        assert_eq!(page.contains("dasharray"), comparison.methods.len() > 8);
        for word in ["<script", "http", "url(", "@import", "src=", "NaN", "inf\"", "class=\"\"", "title=\"\""] {
            assert!(!page.contains(word), "{word}");
        }
        let table = markdown(&comparison);
        assert!(!table.contains(" <script"), "{table}");
    }
}

// The report states if its runs are simulations.
#[test]
fn report_marks_simulations() {
    let folder = tempfile::tempdir().unwrap();
    let base = plan(vec![method("a", &[1.0])]);
    let simulation = compare(&base, &folder, &mut Fake::default());
    assert!(simulation.run == "simulation" && text(&simulation).contains("SIMULATION: the seeds 1, 2, 3 are known"));
    let private = compare(&ComparisonPlan { repeats: Repeats::Keys(1), ..base }, &folder, &mut Fake::default());
    assert!(private.run == "private" && private.seeds.is_none() && !text(&private).contains("SIMULATION"));
    assert!(text(&private).contains("Runs on the same data add up"));
    assert!(text(&private).contains("One run of each"));
}

// An invalid line of the journal is an error that names it, and the file stays as it is.
#[test]
fn bad_journal_line_is_named_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runs.jsonl");
    fs::write(&file, "\n{\"label\": 1}\n").unwrap();
    let message = ComparisonJournal::open(&file).unwrap_err().to_string();
    assert!(message.contains("runs.jsonl: line 2") && message.contains("remove the line"), "{message}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "\n{\"label\": 1}\n");
    let missing = folder.path().join("no/runs.jsonl");
    assert!(ComparisonJournal::open(&missing).unwrap_err().to_string().contains("no/runs.jsonl"));
}

#[test]
fn a_folder_takes_one_comparison_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runs.jsonl");
    let first = ComparisonJournal::open(&file).unwrap();
    let message = ComparisonJournal::open(&file).unwrap_err().to_string();
    assert!(message.contains("another comparison"), "{message}");
    drop(first);
    assert!(ComparisonJournal::open(&file).unwrap().is_empty());
}
