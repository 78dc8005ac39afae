//! Compares the documentation page on models with the rules.

use damper_grad::{has_nonzero_derivative, is_differentiated};
use damper_onnx::graph::{operators, refused_operators};

/// Words in code format in the page's list with the heading `title`.
fn listed(title: &str) -> Vec<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/models.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let (_, list) = page.split_once(&format!("\n**{title}**")).expect(title);
    let list = list.split("\n\n").next().unwrap_or_default();
    list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn page_lists_every_operator_and_no_other() {
    let named =
        |keep: &dyn Fn(&str) -> bool| -> Vec<String> { operators().filter(|op| keep(op)).map(str::to_owned).collect() };
    assert_eq!(listed("Differentiated."), named(&is_differentiated));
    assert_eq!(listed("Without a slope."), named(&|op| !has_nonzero_derivative(op)));
    assert_eq!(
        listed("Computed, not differentiated."),
        named(&|op| has_nonzero_derivative(op) && !is_differentiated(op))
    );
    assert_eq!(listed("Refused by name."), refused_operators().map(str::to_owned).collect::<Vec<_>>());
}
