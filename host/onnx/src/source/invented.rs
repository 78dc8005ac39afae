//! Names that only exporters generate.

/// Returns true for names that exporters generate: `val_3`, `onnx::Mul_12`, `/block/Constant_output_0`. Folded
/// operators and constants have names such as `permute_1`, `scalar_tensor_default`, TensorFlow's `norm/add/y:0`,
/// paddle2onnx's `p2o.pd_op.full.2.0`. PyTorch's parameters below the top module have a dot.
pub fn is_exporters_name(name: &str) -> bool {
    const STEMS: &[&str] = &[
        "_tensor_constant",
        "_to_copy",
        "arange",
        "clone",
        "cos",
        "detach_",
        "div",
        "embedding",
        "exp",
        "expand",
        "eye",
        "full",
        "full_like",
        "lift_fresh_copy",
        "lifted_tensor",
        "linspace",
        "max_val_cast",
        "min_val_cast",
        "mul",
        "neg",
        "ones",
        "ones_like",
        "permute",
        "pow",
        "reciprocal",
        "repeat",
        "rsqrt",
        "select",
        "sin",
        "slice",
        "sqrt",
        "t",
        "to",
        "transpose",
        "tril",
        "triu",
        "unsqueeze",
        "view",
        "zeros",
        "zeros_like",
    ];
    let digits = |rest: &str| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit());
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_');
    name.strip_prefix("val_").is_some_and(digits)
        || digits(name)
        || name.starts_with("onnx::")
        || name.starts_with('/')
        || name.starts_with("scalar_tensor")
        || name.starts_with("const_")
        || name.starts_with("p2o.pd_op.")
        || ["/x:0", "/y:0"].iter().any(|operand| name.ends_with(operand))
        || STEMS.contains(&stem)
}
