//! `Attention` and `RotaryEmbedding` (opset 23), rewritten to simpler operators.

use super::super::affine::Affine;
use super::super::node::{Ruled, Site};
use super::super::{DType, GraphError, Value};
use super::rewrite::Rewrite;
use crate::{attr_float, attr_int, make_attr_int, make_attr_ints};

/// Axes of queries, keys and values: `[batch, heads, positions, width]`. The batch may be a multiple of the number of
/// samples.
struct Heads {
    batch: Affine,
    heads: usize,
    positions: usize,
    width: usize,
}

impl Heads {
    /// Axes of a value `[batch, heads, positions, width]`, or `[batch, positions, heads · width]` with the number of
    /// heads in attribute `count`.
    fn of(site: &Site<'_>, x: &Value, count: &str) -> Result<Self, GraphError> {
        if x.batch.is_some_and(|at| at.axis != 0) {
            return Err(site.mixes(format!("'{}' does not hold its samples along axis 0", x.name), "put them there"));
        }
        let first = x.shape.first().map_or(1, |&d| d as i64);
        let batch = if x.batch.is_some() { Affine::per_sample(first) } else { Affine::fixed(first) };
        match x.shape[..] {
            [_, heads, positions, width] => Ok(Self { batch, heads, positions, width }),
            [_, positions, all] => {
                let heads = usize::try_from(attr_int(site.attributes(), count, 0)).unwrap_or(0);
                if heads == 0 || !all.is_multiple_of(heads) {
                    return Err(site.invalid(format!("{all} features do not divide into {heads} heads ({count})")));
                }
                Ok(Self { batch, heads, positions, width: all / heads })
            }
            _ => Err(site.invalid(format!("'{}' has {} axes, not 3 or 4", x.name, x.shape.len()))),
        }
    }

    fn extents<const N: usize>(&self, rest: [usize; N]) -> Vec<Affine> {
        std::iter::once(self.batch).chain(rest.map(|d| Affine::fixed(d as i64))).collect()
    }
}

fn exchanged() -> Vec<crate::pb::AttributeProto> {
    vec![make_attr_ints("perm", &[0, 2, 1, 3])]
}

/// `Attention` without caches: `softmax(Q Kᵀ · scale + mask) V`, and 0 for a query whose keys are all masked. The
/// queries of heads that share keys are rows of one product.
pub(in super::super) fn attention(site: &Site<'_>) -> Ruled {
    refuse_caches(site)?;
    let attributes = site.attributes();
    let values = [site.float(0)?, site.float(1)?, site.float(2)?];
    let [q, k, v] = [
        Heads::of(site, values[0], "q_num_heads")?,
        Heads::of(site, values[1], "kv_num_heads")?,
        Heads::of(site, values[2], "kv_num_heads")?,
    ];
    if k.heads == 0 || !q.heads.is_multiple_of(k.heads) || (k.heads, k.positions) != (v.heads, v.positions) {
        return Err(site
            .invalid(format!("{} heads of queries do not share {} of keys, {} of values", q.heads, k.heads, v.heads)));
    }
    let mut out = Rewrite::of(site);
    let names = &site.node.input;
    let split = |out: &mut Rewrite<'_>, slot: usize, heads: &Heads| {
        if values[slot].shape.len() == 4 {
            return names[slot].clone();
        }
        let target = out.ints(heads.extents([heads.positions, heads.heads, heads.width]));
        let split = out.node("Reshape", &[&names[slot], &target], vec![]);
        out.node("Transpose", &[&split], exchanged())
    };
    let (queries, keys, values_of) = (split(&mut out, 0, &q), split(&mut out, 1, &k), split(&mut out, 2, &v));
    let default = 1.0 / (q.width as f32).sqrt();
    let scale = attr_float(attributes, "scale", 0.0);
    let scale = out.floats(&[], vec![if scale == 0.0 { default } else { scale }]);
    let queries = out.node("Mul", &[&queries, &scale], vec![]);
    let rows = q.heads / k.heads * q.positions;
    let grouped = out.ints(q.extents([k.heads, rows, q.width]));
    let queries = out.node("Reshape", &[&queries, &grouped], vec![]);
    let keys = out.node("Transpose", &[&keys], vec![make_attr_ints("perm", &[0, 1, 3, 2])]);
    let scores = out.node("MatMul", &[&queries, &keys], vec![]);
    let by_head = out.ints(q.extents([q.heads, q.positions, k.positions]));
    let scores = out.node("Reshape", &[&scores, &by_head], vec![]);
    let p = probabilities(site, &mut out, scores, [q.positions, k.positions])?;
    let grouped = out.ints(q.extents([k.heads, rows, k.positions]));
    let p = out.node("Reshape", &[&p, &grouped], vec![]);
    let y = out.node("MatMul", &[&p, &values_of], vec![]);
    let by_head = out.ints(q.extents([q.heads, q.positions, v.width]));
    if values[0].shape.len() == 4 {
        return Ok(out.end("Reshape", &[&y, &by_head], vec![]));
    }
    let y = out.node("Reshape", &[&y, &by_head], vec![]);
    let y = out.node("Transpose", &[&y], exchanged());
    let joined = out.ints(q.extents([q.positions, q.heads * v.width]));
    Ok(out.end("Reshape", &[&y, &joined], vec![]))
}

fn refuse_caches(site: &Site<'_>) -> Result<(), GraphError> {
    let returns_more = site.node.output.iter().skip(1).any(|name| !name.is_empty());
    if returns_more || (4..7).any(|slot| site.has(slot)) {
        return Err(site.refused(
            "it reads or returns a cache of keys and values, or its scores",
            "export the model without a cache (use_cache=False)",
        ));
    }
    Ok(())
}

/// Softmax of `scores` over the keys that the mask and the causal order leave visible to a query.
fn probabilities(
    site: &Site<'_>,
    out: &mut Rewrite<'_>,
    mut scores: String,
    [queries, keys]: [usize; 2],
) -> Result<String, GraphError> {
    let attributes = site.attributes();
    let softcap = attr_float(attributes, "softcap", 0.0);
    if softcap != 0.0 {
        let cap = out.floats(&[], vec![softcap]);
        let ratio = out.node("Div", &[&scores, &cap], vec![]);
        let tanh = out.node("Tanh", &[&ratio], vec![]);
        scores = out.node("Mul", &[&tanh, &cap], vec![]);
    }
    let bound = |name: &str| attr_int(attributes, name, -1);
    let (left, right) = (bound("left_window_size"), bound("right_window_size"));
    let is_causal = attr_int(attributes, "is_causal", 0) != 0;
    if is_causal || left >= 0 || right >= 0 {
        let is_seen = |query: i64, key: i64| {
            (!is_causal || key <= query) && (left < 0 || key >= query - left) && (right < 0 || key <= query + right)
        };
        let places = (0..queries as i64).flat_map(|query| (0..keys as i64).map(move |key| (query, key)));
        let mask = places.map(|(query, key)| if is_seen(query, key) { 0.0 } else { f32::NEG_INFINITY }).collect();
        let mask = out.floats(&[queries, keys], mask);
        scores = out.node("Add", &[&scores, &mask], vec![]);
    }
    let softmax = vec![make_attr_int("axis", -1)];
    if !site.has(3) {
        return Ok(out.node("Softmax", &[&scores], softmax));
    }
    let mask = site.data(3)?;
    let name = site.node.input[3].as_str();
    let zero = out.floats(&[], vec![0.0]);
    if mask.shaped.dtype == DType::Bool {
        let hidden = out.floats(&[], vec![f32::NEG_INFINITY]);
        scores = out.node("Where", &[name, &scores, &hidden], vec![]);
    } else {
        scores = out.node("Add", &[&scores, name], vec![]);
    }
    let p = out.node("Softmax", &[&scores], softmax);
    let is_nan = out.node("IsNaN", &[&p], vec![]);
    Ok(out.node("Where", &[&is_nan, &zero, &p], vec![]))
}

/// `RotaryEmbedding`: rotates the first features of each head by angles, in pairs of halves or (interleaved) of
/// neighbours.
pub(in super::super) fn rotary(site: &Site<'_>) -> Ruled {
    let x = site.float(0)?;
    let heads = Heads::of(site, x, "num_heads")?;
    let attributes = site.attributes();
    let interleaved = attr_int(attributes, "interleaved", 0) != 0;
    let turned = match attr_int(attributes, "rotary_embedding_dim", 0) {
        0 => heads.width,
        turned => usize::try_from(turned).unwrap_or(0),
    };
    if turned == 0 || turned > heads.width || turned % 2 != 0 {
        return Err(site.invalid(format!("{turned} of {} features cannot be turned in pairs", heads.width)));
    }
    let half = (turned / 2) as i64;
    let mut out = Rewrite::of(site);
    let names = &site.node.input;
    // Merged heads come after the positions.
    let (mut data, place, whole) = match x.shape.len() {
        4 => (names[0].clone(), 1, None),
        _ => {
            let target = out.ints(heads.extents([heads.positions, heads.heads, heads.width]));
            let whole = heads.extents([heads.positions, heads.heads * heads.width]);
            (out.node("Reshape", &[&names[0], &target], vec![]), 2, Some(whole))
        }
    };
    let cut = |out: &mut Rewrite<'_>, data: &str, start: i64, end: i64, step: i64| {
        let [start, end, axis, step] = [start, end, 3, step].map(|number| out.fixed([number]));
        out.node("Slice", &[data, &start, &end, &axis, &step], vec![])
    };
    let rest = (turned < heads.width).then(|| {
        let rest = cut(&mut out, &data, turned as i64, heads.width as i64, 1);
        data = cut(&mut out, &data, 0, turned as i64, 1);
        rest
    });
    let (first, second) = match interleaved {
        true => (cut(&mut out, &data, 0, 2 * half, 2), cut(&mut out, &data, 1, 2 * half, 2)),
        false => (cut(&mut out, &data, 0, half, 1), cut(&mut out, &data, half, 2 * half, 1)),
    };
    let [cosine, sine] = [1, 2].map(|slot| {
        let rows = match site.has(3) {
            true => out.node("Gather", &[&names[slot], &names[3]], vec![make_attr_int("axis", 0)]),
            false => names[slot].clone(),
        };
        let axis = out.fixed([place]);
        out.node("Unsqueeze", &[&rows, &axis], vec![])
    });
    let mut product = |a: &str, b: &str| out.node("Mul", &[a, b], vec![]);
    let parts = [product(&first, &cosine), product(&second, &sine), product(&first, &sine), product(&second, &cosine)];
    let real = out.node("Sub", &[&parts[0], &parts[1]], vec![]);
    let imaginary = out.node("Add", &[&parts[2], &parts[3]], vec![]);
    let last = || vec![make_attr_int("axis", -1)];
    let pairs = if interleaved {
        let behind = out.fixed([-1]);
        let [real, imaginary] = [real, imaginary].map(|part| out.node("Unsqueeze", &[&part, &behind], vec![]));
        let pairs = out.node("Concat", &[&real, &imaginary], last());
        let lead = if place == 1 { [heads.heads, heads.positions] } else { [heads.positions, heads.heads] };
        let target = out.ints(heads.extents([lead[0], lead[1], turned]));
        out.node("Reshape", &[&pairs, &target], vec![])
    } else {
        out.node("Concat", &[&real, &imaginary], last())
    };
    let y = match &rest {
        Some(rest) => out.node("Concat", &[&pairs, rest], last()),
        None => pairs,
    };
    let whole = whole.unwrap_or_else(|| heads.extents([heads.heads, heads.positions, heads.width]));
    let target = out.ints(whole);
    Ok(out.end("Reshape", &[&y, &target], vec![]))
}
