use super::*;
use damper_data::TableNames;

/// Returns a plan of four devices with users, with noise on each.
pub(crate) fn settings() -> PlanSettings {
    PlanSettings {
        unit: Unit::User,
        noise: DeviceNoise::Local,
        noise_multiplier: 2.0,
        sampling_rate: 0.5,
        rounds: 5,
        devices: 4,
        smallest_cohort: 3,
        colluders: 0,
        aggregation: Aggregation::Clear,
        expected_batch: 10,
        most_units: None,
        reply_seconds: None,
        members: vec![],
        clip: 0.5,
        grid_bits: 16,
        lr: 1.0,
        local: Some(LocalSteps { steps: 3, lr: 0.1, batch: 8 }),
        delta: 1e-5,
        simulation: true,
        model_flags: vec![],
        names: DataNames::default(),
    }
}

fn plan(settings: &PlanSettings) -> Result<FederationPlan, FederationError> {
    FederationPlan::new(settings, 650, "m".repeat(64))
}

fn table(columns: &[&str], label: &str) -> DataNames {
    let columns = columns.iter().map(|name| (*name).to_owned()).collect();
    DataNames { table: Some(TableNames { columns, label: Some(label.into()) }), classes: None }
}

// The names are part of the digest, so a plan with other names is another plan. The error for the first format names
// it.
#[test]
fn names_and_format_are_of_the_plan() {
    let named = |columns: &[&str]| plan(&PlanSettings { names: table(columns, "y"), ..settings() }).unwrap();
    let (first, second) = (named(&["a", "b", "y"]), named(&["b", "a", "y"]));
    assert_eq!(FederationPlan::from_json(first.to_json().as_bytes()).unwrap().names, table(&["a", "b", "y"], "y"));
    assert_ne!(first.digest(), second.digest());
    let old = br#"{"federation":{"run":"simulation","unit":"user"},"sha256":"00"}"#;
    let message = FederationPlan::from_json(old).unwrap_err().to_string();
    assert!(message.contains("of format 1") && message.contains("format 3"), "{message}");
}

#[test]
fn plan_round_trips() {
    for noise in [DeviceNoise::Local, DeviceNoise::Shares] {
        for multiplier in [0.8, 1.0, 1.37, 2.0, 50.0] {
            for (colluders, aggregation) in [(0, Aggregation::Clear), (1, Aggregation::Prio)] {
                let settings =
                    PlanSettings { noise, noise_multiplier: multiplier, colluders, aggregation, ..settings() };
                let plan = plan(&settings).unwrap();
                assert_eq!(FederationPlan::from_json(plan.to_json().as_bytes()).unwrap(), plan);
            }
        }
    }
}

// Every changed character is an error, and so is a sealed plan with values that no settings produce.
#[test]
fn damaged_or_forged_plan_is_error() {
    let plan = plan(&settings()).unwrap();
    let text = plan.to_json();
    for at in 0..text.len() - 1 {
        let mut bytes = text.clone().into_bytes();
        bytes[at] ^= 1;
        assert!(FederationPlan::from_json(&bytes).is_err(), "{at}");
    }
    let twice = TableNames { columns: ["a", "b", "A"].map(String::from).into(), label: None };
    let twice = DataNames { table: Some(twice), classes: None };
    for forged in [
        FederationPlan { sigma: 3, ..plan.clone() },
        FederationPlan { smallest_cohort: 9, ..plan.clone() },
        FederationPlan { colluders: 3, ..plan.clone() },
        FederationPlan { delta: 2.0, ..plan.clone() },
        FederationPlan { grid_bits: 40, ..plan.clone() },
        FederationPlan { sampling_rate_numerator: 1 << 60, ..plan.clone() },
        FederationPlan { run: RunKind::NotPrivate, ..plan.clone() },
        FederationPlan { local: None, ..plan.clone() },
        FederationPlan { format: 1, ..plan.clone() },
        FederationPlan { names: twice.clone(), ..plan.clone() },
    ] {
        assert!(FederationPlan::from_json(forged.to_json().as_bytes()).is_err(), "{forged:?}");
    }
}

// A name must not contain control characters, and must not imitate another member.
#[test]
fn members_names_are_plain() {
    let keys = [
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
    ];
    let of = |names: [&str; 2]| {
        let members = keys.iter().zip(names).map(|(key, name)| Member { public_key: (*key).into(), name: name.into() });
        plan(&PlanSettings { devices: 2, smallest_cohort: 2, members: members.collect(), ..settings() })
    };
    of(["St. Mary's (Köln)", "клиника 2"]).unwrap();
    of(["", ""]).unwrap();
    let spaced = format!("clinic 1{}member 2", " ".repeat(20));
    for bad in
        ["a\u{202e}b", "a\u{200b}", "\u{1b}[2J", "a\nb", "a  b", &spaced, &"x".repeat(41), "a\u{ad}", "\u{e0041}"]
    {
        assert!(of([bad, "b"]).unwrap_err().to_string().contains("the name of device 1"), "{bad:?}");
    }
    assert!(of(["a", "a"]).unwrap_err().to_string().contains("name of another"));
}

#[test]
fn settings_out_of_range_are_named() {
    let good = settings();
    let local = good.local.unwrap();
    for (bad, word) in [
        (PlanSettings { rounds: 0, ..good.clone() }, "rounds"),
        (PlanSettings { devices: 0, ..good.clone() }, "devices"),
        (PlanSettings { smallest_cohort: 5, ..good.clone() }, "smallest_cohort"),
        (PlanSettings { smallest_cohort: 0, ..good.clone() }, "smallest_cohort"),
        (PlanSettings { colluders: 3, ..good.clone() }, "colluders"),
        (PlanSettings { colluders: 2, noise: DeviceNoise::Shares, ..good.clone() }, "colluders"),
        (PlanSettings { colluders: u32::MAX, noise: DeviceNoise::Shares, ..good.clone() }, "colluders"),
        (PlanSettings { lr: f32::NAN, ..good.clone() }, "lr"),
        (PlanSettings { clip: 0.0, ..good.clone() }, "clip"),
        (PlanSettings { local: None, ..good.clone() }, "local_steps"),
        (PlanSettings { unit: Unit::Sample, ..good.clone() }, "local_steps"),
        (PlanSettings { local: Some(LocalSteps { steps: 0, ..local }), ..good.clone() }, "local_steps"),
        (PlanSettings { local: Some(LocalSteps { lr: 0.0, ..local }), ..good.clone() }, "local_lr"),
        (PlanSettings { local: Some(LocalSteps { batch: 0, ..local }), ..good.clone() }, "local_batch"),
        (PlanSettings { sampling_rate: 0.0, ..good.clone() }, "sampling_rate"),
        (PlanSettings { noise_multiplier: 0.0, ..good.clone() }, "noise_multiplier"),
        (PlanSettings { noise_multiplier: 0.001, ..good.clone() }, "grid_bits"),
        (PlanSettings { expected_batch: 0, ..good.clone() }, "batch_size"),
        (PlanSettings { expected_batch: 1 << 15, ..good.clone() }, "grid_bits"),
        (PlanSettings { delta: 0.0, ..good.clone() }, "delta"),
        (PlanSettings { names: table(&["a", "a"], "a"), ..good.clone() }, "columns"),
        (PlanSettings { names: table(&["a", "A"], "a"), ..good.clone() }, "columns"),
        (PlanSettings { names: table(&["a", "b"], "c"), ..good.clone() }, "label_column"),
        (
            PlanSettings { names: DataNames { table: None, classes: Some(vec!["x".into(); 2]) }, ..good.clone() },
            "classes",
        ),
    ] {
        let error = plan(&bad).unwrap_err().to_string();
        assert!(error.starts_with(&format!("`{word}`")), "{word}: {error}");
    }
}
