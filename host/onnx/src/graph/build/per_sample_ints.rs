//! Integers that depend on the sample only through its index: `a·n + b` for sample `n`.
//!
//! Exporters write attention masks as lookups: `mask[arange(N)[:, None], positions]`. This is a `GatherND`, or a
//! `Gather` of the flattened mask at `n·length + position`. This module proves that sample `n` reads only its own row,
//! at positions that are the same for all samples. The lookup then becomes a `Reshape`, or a `Gather` within each
//! sample. All other readers of sample indices are errors.

use super::super::affine::Affine;
use super::super::node::{Ints, Item, MAX_FOLDED, MAX_RANK, Shaped, Site, Source, Step};
use super::super::shape::scatter::Written;
use super::super::{BatchAxis, DType, GraphError, Tensor, TensorData, ValueId};
use super::builder::{Builder, Rows};
use crate::pb::NodeProto;
use crate::{attr_int, make_attr_int, node_name};

/// Input of a node that reads rows.
enum Input {
    Rows(Rows),
    Ints(Ints),
    Value(ValueId),
    Absent,
}

impl Builder<'_> {
    /// Adds the node if it reads or creates rows in a supported form. Returns false if the operator's rule should
    /// handle it.
    pub(super) fn add_rows(&mut self, index: usize, node: &NodeProto) -> Result<bool, GraphError> {
        let Some(output) = node.output.first() else { return Ok(false) };
        let reads = node.input.iter().any(|name| self.rows.contains_key(name));
        if !reads && !matches!(node.op_type.as_str(), "Expand" | "GatherND" | "Range" | "ScatterND") {
            return Ok(false);
        }
        let mut inputs = Vec::with_capacity(node.input.len());
        for name in &node.input {
            inputs.push(match (self.rows.get(name), self.items.get(name)) {
                (Some(rows), _) => Input::Rows(rows.clone()),
                (None, Some(Item::Ints(ints))) => Input::Ints(ints.clone()),
                (None, Some(Item::Value(id))) => Input::Value(*id),
                // The common path reports an error here, if there is one.
                (None, None) => Input::Absent,
            });
        }
        let made = match (node.op_type.as_str(), &inputs[..]) {
            ("Range", [Input::Ints(start), Input::Ints(limit), Input::Ints(step)]) => numbers(start, limit, step),
            ("Expand", [Input::Ints(ints), Input::Ints(target)]) => {
                let constant = ints.constants();
                constant.and_then(|values| {
                    let entries = values.into_iter().map(|b| Some((0, b))).collect();
                    expanded(ints.dtype, &ints.shape, None, entries, target)
                })
            }
            ("Expand", [Input::Rows(rows), Input::Ints(target)]) => {
                expanded(rows.dtype, &rows.shape, Some(rows.axis), rows.entries.clone(), target)
            }
            ("Identity", [Input::Rows(rows)]) => Some(rows.clone()),
            ("Cast", [Input::Rows(rows)]) => {
                let to = DType::from_onnx(attr_int(&node.attribute, "to", 0) as i32);
                to.ok().filter(|to| matches!(to, DType::I32 | DType::I64)).map(|dtype| Rows { dtype, ..rows.clone() })
            }
            ("Reshape", [Input::Rows(rows), Input::Ints(target)]) => reshaped(rows, target),
            ("Unsqueeze", [Input::Rows(rows), Input::Ints(axes)]) => unsqueezed(rows, axes),
            ("Add" | "Sub" | "Mul" | "Max" | "Min", [a, b]) if reads => elementwise(&node.op_type, a, b),
            ("Concat", _) if reads => joined(&inputs, attr_int(&node.attribute, "axis", 0)),
            _ => None,
        };
        if let Some(rows) = made.filter(|rows| rows.entries.len() <= MAX_FOLDED && rows.shape.len() <= MAX_RANK) {
            self.rows.insert(output.clone(), rows);
            return Ok(true);
        }
        let name = node_name(node, index);
        if self.follow(&name, node, &inputs)? {
            return Ok(true);
        }
        for (slot, input) in inputs.into_iter().enumerate() {
            if let Input::Rows(rows) = input {
                self.expand_rows(&name, node, slot, rows)?;
            }
        }
        Ok(false)
    }

    /// Adds a node that counts rows, or that reads or writes within each sample.
    fn follow(&mut self, name: &str, node: &NodeProto, inputs: &[Input]) -> Result<bool, GraphError> {
        let output = node.output.first().map_or("", String::as_str);
        match (node.op_type.as_str(), inputs) {
            ("Shape", [Input::Rows(rows)]) if node.attribute.iter().all(|a| a.name == "start" && a.i == 0) => {
                let extent = |(axis, &d): (usize, &usize)| {
                    if axis == rows.axis { Affine::per_sample(1) } else { Affine::fixed(d as i64) }
                };
                let entries: Vec<Affine> = rows.shape.iter().enumerate().map(extent).collect();
                let ints = Ints { dtype: DType::I64, shape: vec![entries.len()], entries };
                self.items.insert(output.to_string(), Item::Ints(ints));
                return Ok(true);
            }
            ("GatherND", [Input::Value(data), index]) if attr_int(&node.attribute, "batch_dims", 0) == 0 => {
                if let Some(plan) = self.tuples(*data, index) {
                    return self.look_up(name, node, *data, plan).map(|()| true);
                }
            }
            ("ScatterND", [Input::Value(data), index, Input::Value(updates)]) => {
                if let Some(plan) = self.tuples(*data, index) {
                    return self.write_over(name, node, (*data, *updates), plan).map(|()| true);
                }
            }
            ("Gather", [Input::Value(data), Input::Rows(rows)]) if attr_int(&node.attribute, "axis", 0) == 0 => {
                if let Some(plan) = self.flat(*data, rows) {
                    return self.look_up(name, node, *data, plan).map(|()| true);
                }
            }
            _ => {}
        }
        Ok(false)
    }

    /// Adds rows that are the same for all samples, as data.
    fn expand_rows(&mut self, name: &str, node: &NodeProto, slot: usize, rows: Rows) -> Result<(), GraphError> {
        let source = &node.input[slot];
        let same = |entry: Option<(i64, i64)>| entry.filter(|(a, _)| *a == 0).map(|(_, b)| Affine::fixed(b));
        let Some(entries) = rows.entries.iter().map(|&entry| same(entry)).collect::<Option<Vec<_>>>() else {
            return Err(GraphError::Mixes {
                node: name.into(),
                op: node.op_type.clone(),
                reason: format!(
                    "it reads '{source}', the samples' numbers, in another way than to look up their own rows"
                ),
                remedy: "look up within each sample, as with torch.gather, or give the model its mask as an input"
                    .into(),
            });
        };
        let values = entries.iter().map(|entry| entry.fixed);
        let data = match rows.dtype {
            DType::I32 => TensorData::I32(values.map(|x| x as i32).collect()),
            DType::Bool => TensorData::Bool(values.map(|x| x != 0).collect()),
            _ => TensorData::I64(values.collect()),
        };
        let constant = self.add_constant(&format!("{source}/one"), Tensor { shape: rows.shape.clone(), data })?;
        let output = Shaped { dtype: rows.dtype, shape: rows.shape, batch: Some(BatchAxis::plain(rows.axis)) };
        self.emit(source, "Expand", vec![Some(constant)], vec![], &[source], vec![output])?;
        self.rows.remove(source);
        Ok(())
    }

    /// Indices in an export with batch size 1, whose only sample is 0. Replaces every leading 0 by the sample index
    /// `n`.
    fn only_sample(&self, ints: &Ints) -> Option<Rows> {
        let (values, width) = (ints.constants()?, *ints.shape.last()?);
        let fits = self.fixed_batch == Some(1) && ints.shape.first() == Some(&1) && ints.shape.len() >= 2 && width > 0;
        let entries = values.iter().enumerate().map(|(flat, &b)| match (flat % width, b) {
            (0, 0) => Some((1, 0)),
            (0, _) => None,
            _ => Some((0, b)),
        });
        fits.then(|| Rows { dtype: ints.dtype, shape: ints.shape.clone(), axis: 0, entries: entries.collect() })
    }

    /// `GatherND` and `ScatterND`: tuples of the sample index and a position on each of the following axes.
    fn tuples(&self, data: ValueId, index: &Input) -> Option<Plan> {
        let rows = match index {
            Input::Rows(rows) => rows.clone(),
            Input::Ints(ints) => self.only_sample(ints)?,
            Input::Value(_) | Input::Absent => return None,
        };
        let value = &self.values[data.0];
        let (&width, shape) = rows.shape.split_last()?;
        if value.batch != Some(BatchAxis::plain(0))
            || !(2..=value.shape.len()).contains(&width)
            || rows.axis == shape.len()
        {
            return None;
        }
        let extents = &value.shape[1..width];
        let position = |tuple: &[Option<(i64, i64)>]| {
            let (&first, rest) = tuple.split_first()?;
            let mut places = rest.iter().zip(extents);
            let place = |at: usize, (entry, &extent): (&Option<(i64, i64)>, &usize)| {
                let position = (*entry)?;
                let counted = if position.1 < 0 { position.1 + extent as i64 } else { position.1 };
                let fits = position.0 == 0 && (0..extent as i64).contains(&counted);
                fits.then_some(at * extent + counted as usize)
            };
            places.try_fold(0, place).filter(|_| first == Some((1, 0)))
        };
        let positions = rows.entries.chunks(width).map(position).collect::<Option<Vec<_>>>()?;
        let length = extents.iter().product();
        Some(Plan { length, positions, shape: shape.to_vec(), rest: width, axis: rows.axis })
    }

    /// `Gather` from rows concatenated over samples: the sample index times the row length, plus a position.
    fn flat(&self, data: ValueId, rows: &Rows) -> Option<Plan> {
        let value = &self.values[data.0];
        let at = value.batch.filter(|at| at.axis == 0 && at.outer == 1)?;
        let position = |entry: &Option<(i64, i64)>| {
            let (stride, position) = (*entry)?;
            usize::try_from(position).ok().filter(|&position| stride == at.inner as i64 && position < at.inner)
        };
        let positions = rows.entries.iter().map(position).collect::<Option<Vec<_>>>()?;
        Some(Plan { length: at.inner, positions, shape: rows.shape.clone(), rest: 1, axis: rows.axis })
    }

    /// Adds the nodes of a lookup within each sample.
    fn look_up(&mut self, name: &str, node: &NodeProto, data: ValueId, plan: Plan) -> Result<(), GraphError> {
        let value = &self.values[data.0];
        let (dtype, rest) = (value.dtype, value.shape[plan.rest..].to_vec());
        let step = |op, inputs, attributes, shape: &[usize], axis| Step {
            op,
            inputs,
            attributes,
            output: Shaped { dtype, shape: [shape, &rest].concat(), batch: Some(BatchAxis::plain(axis)) },
        };
        plan.keeps_samples_first(name, node)?;
        let mut steps = Vec::new();
        let mut source = Source::Value(data);
        if plan.positions.iter().copied().ne(0..plan.length) {
            let positions: Vec<i64> = plan.positions.iter().map(|&position| position as i64).collect();
            steps.push(step("Reshape", vec![source], vec![], &[1, plan.length], 0));
            let inputs = vec![Source::Step(0), Source::integers(&positions)];
            steps.push(step("Gather", inputs, vec![make_attr_int("axis", 1)], &[1, positions.len()], 0));
            source = Source::Step(1);
        }
        steps.push(step("Reshape", vec![source], vec![], &plan.shape, plan.axis));
        let last = steps.len() - 1;
        self.add_steps(name, node, steps, &[last])
    }

    /// Adds the nodes that write within each sample.
    fn write_over(
        &mut self,
        name: &str,
        node: &NodeProto,
        (data, updates): (ValueId, ValueId),
        plan: Plan,
    ) -> Result<(), GraphError> {
        plan.keeps_samples_first(name, node)?;
        let site = Site {
            node,
            name,
            opset: self.opset,
            fixed_batch: self.fixed_batch,
            inputs: vec![],
            values: &self.values,
            parameters: &self.parameters,
        };
        let (value, given) = (&self.values[data.0], &self.values[updates.0]);
        let rest = value.shape[plan.rest..].to_vec();
        let is_held = given.batch.is_none_or(|at| at == BatchAxis::plain(plan.axis));
        if given.shape[..] != *[&plan.shape[..], &rest].concat() || given.dtype != value.dtype || !is_held {
            return Err(site.invalid(format!("updates {:?} do not fit data {:?}", given.shape, value.shape)));
        }
        let written = Written {
            data: (Source::Value(data), value.batch),
            updates: (Source::Value(updates), given.batch.map(|_| BatchAxis::plain(0))),
            axis: 1,
            lead: vec![1],
            extent: plan.length,
            rest,
            dtype: value.dtype,
        };
        let steps = written.steps(&site, &plan.positions, Shaped::of(value))?;
        let last = steps.len() - 1;
        self.add_steps(name, node, steps, &[last])
    }
}

/// Lookup within each sample.
struct Plan {
    /// Number of positions in one sample.
    length: usize,
    /// Positions, one for each entry of `shape`.
    positions: Vec<usize>,
    /// Shape of the indices, for one sample.
    shape: Vec<usize>,
    /// First axis of the data that is not indexed.
    rest: usize,
    /// Batch axis of the output.
    axis: usize,
}

impl Plan {
    fn keeps_samples_first(&self, name: &str, node: &NodeProto) -> Result<(), GraphError> {
        if self.shape[..self.axis].iter().all(|&d| d == 1) {
            return Ok(());
        }
        Err(GraphError::Mixes {
            node: name.into(),
            op: node.op_type.clone(),
            reason: "it lays the samples behind another axis".into(),
            remedy: "keep the batch on axis 0".into(),
        })
    }
}

/// `Range(0, N, 1)`.
fn numbers(start: &Ints, limit: &Ints, step: &Ints) -> Option<Rows> {
    let is = |ints: &Ints, wanted: Affine| ints.entries == [wanted];
    let all = is(start, Affine::fixed(0)) && is(limit, Affine::per_sample(1)) && is(step, Affine::fixed(1));
    all.then(|| Rows { dtype: limit.dtype, shape: vec![1], axis: 0, entries: vec![Some((1, 0))] })
}

/// `Expand` to a shape with one `N`, along an axis that holds only the sample index.
fn expanded(
    dtype: DType,
    shape: &[usize],
    axis: Option<usize>,
    entries: Vec<Option<(i64, i64)>>,
    target: &Ints,
) -> Option<Rows> {
    let rank = shape.len().max(target.entries.len());
    let own = rank - shape.len();
    let mut axis = axis.map(|axis| axis + own);
    let mut to: Vec<usize> = [&vec![1; own], shape].concat();
    for (at, &entry) in (rank - target.entries.len()..).zip(&target.entries) {
        if entry == Affine::per_sample(1) && to[at] == 1 && axis.is_none_or(|axis| axis == at) {
            axis = Some(at);
            continue;
        }
        match (usize::try_from(entry.constant()?).ok()?, to[at]) {
            (1, _) => {}
            (d, own) if d == own => {}
            (d, 1) if axis != Some(at) => to[at] = d,
            _ => return None,
        }
    }
    let count = to.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).filter(|&n| n <= MAX_FOLDED)?;
    let from = Rows { dtype, shape: shape.to_vec(), axis: 0, entries };
    let entries = (0..count).map(|flat| from.spread(flat, &to)).collect();
    Some(Rows { dtype, shape: to, axis: axis?, entries })
}

/// `Reshape` that keeps the samples first.
fn reshaped(rows: &Rows, target: &Ints) -> Option<Rows> {
    let (&first, rest) = target.entries.split_first()?;
    let leads = first.constant() == Some(-1) || first == Affine::per_sample(1);
    let rest = rest.iter().map(|entry| usize::try_from(entry.constant()?).ok()).collect::<Option<Vec<_>>>()?;
    let fits = rest.iter().try_fold(1usize, |n, &d| n.checked_mul(d)) == Some(rows.entries.len());
    (leads && fits && rows.shape[..=rows.axis].iter().all(|&d| d == 1)).then(|| Rows {
        shape: [&[1], &rest[..]].concat(),
        axis: 0,
        ..rows.clone()
    })
}

fn unsqueezed(rows: &Rows, axes: &Ints) -> Option<Rows> {
    let added = axes.constants()?;
    let rank = rows.shape.len() + added.len();
    if rank > MAX_RANK {
        return None;
    }
    let counted = added.into_iter().map(|axis| usize::try_from(if axis < 0 { axis + rank as i64 } else { axis }).ok());
    let added: Vec<usize> = counted.collect::<Option<_>>()?;
    let mut own = 0..rows.shape.len();
    let (mut shape, mut axis) = (Vec::with_capacity(rank), 0);
    for at in 0..rank {
        let from = if added.contains(&at) { None } else { Some(own.next()?) };
        if from == Some(rows.axis) {
            axis = at;
        }
        shape.push(from.map_or(1, |from| rows.shape[from]));
    }
    own.next().is_none().then(|| Rows { shape, axis, ..rows.clone() })
}

/// Elementwise operator on two inputs, one of which is rows.
fn elementwise(op: &str, a: &Input, b: &Input) -> Option<Rows> {
    let side = |input: &Input| match input {
        Input::Rows(rows) => Some((rows.clone(), true)),
        Input::Ints(ints) => {
            let entries = ints.constants()?.into_iter().map(|b| Some((0, b))).collect();
            Some((Rows { dtype: ints.dtype, shape: ints.shape.clone(), axis: 0, entries }, false))
        }
        Input::Value(_) | Input::Absent => None,
    };
    let ((a, a_counts), (b, b_counts)) = (side(a)?, side(b)?);
    let rank = a.shape.len().max(b.shape.len());
    let place = |rows: &Rows| rows.axis + rank - rows.shape.len();
    let axis = if a_counts { place(&a) } else { place(&b) };
    if a_counts && b_counts && place(&a) != place(&b) || a.dtype != b.dtype {
        return None;
    }
    let extent = |rows: &Rows, at: usize| (at + rows.shape.len()).checked_sub(rank).map_or(1, |at| rows.shape[at]);
    let mut shape = Vec::with_capacity(rank);
    for at in 0..rank {
        shape.push(match (extent(&a, at), extent(&b, at)) {
            (x, y) if x == y || y == 1 => x,
            (1, y) => y,
            _ => return None,
        });
    }
    // A constant with one row per sample of an export does not generalise to other numbers of samples.
    if shape[axis] != 1 {
        return None;
    }
    let count = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).filter(|&n| n <= MAX_FOLDED)?;
    let entries = (0..count).map(|flat| combine(op, a.spread(flat, &shape)?, b.spread(flat, &shape)?)).collect();
    Some(Rows { dtype: a.dtype, shape, axis, entries })
}

fn combine(op: &str, (a, b): (i64, i64), (c, d): (i64, i64)) -> Option<(i64, i64)> {
    match op {
        "Add" => Some((a.checked_add(c)?, b.checked_add(d)?)),
        "Sub" => Some((a.checked_sub(c)?, b.checked_sub(d)?)),
        "Mul" if a == 0 => Some((b.checked_mul(c)?, b.checked_mul(d)?)),
        "Mul" if c == 0 => Some((a.checked_mul(d)?, b.checked_mul(d)?)),
        // No sample index is negative.
        "Max" if a >= c && b >= d => Some((a, b)),
        "Max" if a <= c && b <= d => Some((c, d)),
        "Min" if a >= c && b >= d => Some((c, d)),
        "Min" if a <= c && b <= d => Some((a, b)),
        _ => None,
    }
}

/// `Concat` of rows along an axis other than the samples' axis.
fn joined(inputs: &[Input], axis: i64) -> Option<Rows> {
    let rows = inputs.iter().map(|input| if let Input::Rows(rows) = input { Some(rows) } else { None });
    let rows: Vec<&Rows> = rows.collect::<Option<_>>()?;
    let first = *rows.first()?;
    let rank = first.shape.len();
    let at = usize::try_from(if axis < 0 { axis + rank as i64 } else { axis }).ok().filter(|&at| at < rank)?;
    let alike = |other: &&&Rows| {
        other.dtype == first.dtype
            && other.axis == first.axis
            && other.shape.len() == rank
            && (0..rank).all(|i| i == at || other.shape[i] == first.shape[i])
    };
    if at == first.axis || rows.iter().filter(alike).count() != rows.len() {
        return None;
    }
    let mut shape = first.shape.clone();
    shape[at] = rows.iter().map(|rows| rows.shape[at]).sum();
    let before: usize = shape[..at].iter().product();
    let mut entries = Vec::new();
    for row in 0..before {
        for part in &rows {
            let width: usize = part.shape[at..].iter().product();
            entries.extend_from_slice(&part.entries[row * width..(row + 1) * width]);
        }
    }
    Some(Rows { shape, entries, ..first.clone() })
}
