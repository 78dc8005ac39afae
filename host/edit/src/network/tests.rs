use super::*;
use damper_onnx::graph::{Graph, initializers};

fn sizes(sample: &[usize], tokens: Option<usize>, outputs: usize) -> NetworkSizes {
    NetworkSizes { sample: sample.to_vec(), tokens, outputs }
}

/// Numbers of trained parameters, computed by hand from the layers' definitions.
#[test]
fn networks_have_the_layers_of_their_names() {
    for (name, of, trained) in [
        ("linear", sizes(&[5], None, 3), 5 * 3 + 3),
        ("linear", sizes(&[1, 8, 8], None, 10), 64 * 10 + 10),
        ("mlp:64,32", sizes(&[5], None, 3), 5 * 64 + 64 + 64 * 32 + 32 + 32 * 3 + 3),
        ("mlp", sizes(&[2, 3], None, 1), 6 * 64 + 64 + 64 + 1),
        // One block: 8 to 4.
        ("cnn", sizes(&[1, 8, 8], None, 10), 9 * 16 + 16 + 16 * 16 * 32 + 32 + 32 * 10 + 10),
        // Two blocks: 28 to 14 to 7.
        ("cnn", sizes(&[1, 28, 28], None, 10), 160 + 9 * 16 * 32 + 32 + 49 * 32 * 32 + 32 + 330),
        ("cnn", sizes(&[3, 2, 9], None, 2), 27 * 16 + 16 + 18 * 16 * 32 + 32 + 66),
        ("bag", sizes(&[7], Some(100), 2), 100 * 64 + 64 * 2 + 2),
        ("lstm:8", sizes(&[7], Some(100), 2), 100 * 8 + 2 * 32 * 8 + 64 + 8 * 2 + 2),
        ("lstm:8", sizes(&[7, 3], None, 2), 32 * 3 + 32 * 8 + 64 + 8 * 2 + 2),
    ] {
        let network: Network = name.parse().unwrap();
        let model = network.model(&of, 0).unwrap();
        Graph::from_model(&model, &GraphOptions::default()).unwrap();
        let of_model = initializers(&model, &GraphOptions::default()).unwrap();
        let count: usize =
            of_model.iter().filter(|one| one.trained).map(|one| one.shape.iter().product::<usize>()).sum();
        assert_eq!(count, trained, "{name} {of:?}");
        assert_eq!(network.model(&of, 0).unwrap(), model);
        assert_ne!(network.model(&of, 1).unwrap(), model);
    }
}

#[test]
fn names_read_back() {
    for name in ["linear", "mlp:64,32", "cnn", "bag:16", "lstm:8"] {
        assert!(Network::is_named(name));
        assert_eq!(name.parse::<Network>().unwrap().to_string(), name);
    }
    for wrong in ["mlp:", "mlp:0", "mlp:1e3", "cnn:3", "bag:1,2", "tree", ""] {
        assert!(wrong.parse::<Network>().is_err(), "{wrong}");
    }
    assert!(!Network::is_named("model.onnx"));
}

// Sizes come from files that may be damaged.
#[test]
fn large_networks_are_refused() {
    for (name, of) in [
        ("mlp:65536,65536", sizes(&[3], None, 2)),
        ("linear", sizes(&[1, 60_000, 60_000], None, 10)),
        ("linear", sizes(&[usize::MAX, usize::MAX], None, 10)),
    ] {
        let problem = name.parse::<Network>().unwrap().model(&of, 0).unwrap_err().to_string();
        assert!(problem.contains("are the most"), "{problem}");
    }
}

#[test]
fn other_shapes_are_refused() {
    for (name, of, word) in [
        ("cnn", sizes(&[64], None, 2), "pictures"),
        ("bag", sizes(&[64], None, 2), "texts"),
        ("linear", sizes(&[64], Some(9), 2), "numbers"),
        ("lstm", sizes(&[64], None, 2), "series"),
    ] {
        let problem = name.parse::<Network>().unwrap().model(&of, 0).unwrap_err().to_string();
        assert!(problem.contains(word), "{problem}");
    }
}
