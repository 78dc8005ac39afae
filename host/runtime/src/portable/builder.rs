//! Program under construction: values, and the steps that write them. Values that depend only on constants are computed
//! at once.

use super::kernel::{Call, Kernel};
use super::value::{Data, Kind, Slice, Stage};
use damper_nn::Walk;
use damper_nn::elementwise::Compare;
use pulp::Arch;

/// Index of a value.
pub(super) type Id = usize;

pub(super) struct Value {
    pub(super) shape: Vec<usize>,
    pub(super) kind: Kind,
    pub(super) stage: Stage,
    /// Elements of a constant. An alias has none.
    pub(super) data: Option<Data>,
    /// Value that owns the memory: itself if a step writes it. Otherwise this value is a reshaped view.
    pub(super) root: Id,
    /// Source of a transpose, and the permutation.
    transpose: Option<(Id, Vec<usize>)>,
}

/// Kernel with its operands and result.
pub(super) struct Written {
    pub(super) node: String,
    pub(super) kernel: Kernel,
    pub(super) reads: Vec<Id>,
    pub(super) write: Id,
}

/// Form of a program: fast or small.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ProgramForm {
    /// For speed. Values begin at a cache line, and operands shared by all samples are laid out once in reading order.
    #[default]
    Fast,
    /// For little memory. No gaps, and no copies of operands that can be read in place. The bits are the same.
    Small,
}

#[derive(Default)]
pub(super) struct Builder {
    pub(super) form: ProgramForm,
    pub(super) values: Vec<Value>,
    pub(super) steps: Vec<Written>,
    /// Name of the node that is being lowered.
    pub(super) node: String,
}

/// Reason why a node cannot run.
pub(super) type Refusal = String;

/// Error for a walk with too many axes.
pub(super) const TOO_MANY_AXES: &str = "its operands have more axes than the portable kernels take";

impl Builder {
    pub(super) fn input(&mut self, shape: Vec<usize>, kind: Kind, stage: Stage) -> Id {
        self.value(Value { shape, kind, stage, data: None, root: self.values.len(), transpose: None })
    }

    pub(super) fn constant(&mut self, shape: Vec<usize>, data: Data) -> Id {
        let (kind, root) = (data.kind(), self.values.len());
        self.value(Value { shape, kind, stage: Stage::Constant, data: Some(data), root, transpose: None })
    }

    fn value(&mut self, value: Value) -> Id {
        self.values.push(value);
        self.values.len() - 1
    }

    pub(super) fn shape(&self, id: Id) -> &[usize] {
        &self.values[id].shape
    }

    pub(super) fn kind(&self, id: Id) -> Kind {
        self.values[id].kind
    }

    pub(super) fn stage(&self, id: Id) -> Stage {
        self.values[id].stage
    }

    /// Elements of a constant.
    pub(super) fn data(&self, id: Id) -> Option<&Data> {
        self.values[self.values[id].root].data.as_ref()
    }

    /// Integers of a constant.
    pub(super) fn ints(&self, id: Id) -> Option<&[i64]> {
        match self.data(id)? {
            Data::I64(data) => Some(data),
            _ => None,
        }
    }

    /// Float of a scalar constant.
    pub(super) fn float(&self, id: Id) -> Option<f32> {
        match self.data(id)? {
            Data::F32(data) if data.len() == 1 => Some(data[0]),
            _ => None,
        }
    }

    /// Returns `x` if `condition` is `x > 0`.
    pub(super) fn positive(&self, condition: Id) -> Option<Id> {
        let step = self.steps.iter().rev().find(|step| step.write == self.values[condition].root)?;
        match (&step.kernel, &step.reads[..]) {
            (Kernel::Compare(Compare::Greater, _), [x, zero]) if self.float(*zero) == Some(0.0) => Some(*x),
            _ => None,
        }
    }

    /// `id` in another shape of as many elements.
    pub(super) fn alias(&mut self, id: Id, shape: Vec<usize>) -> Result<Id, Refusal> {
        let from = &self.values[id];
        if len(&shape) != len(&from.shape) {
            return Err(format!("the shape {:?} cannot become {shape:?}", from.shape));
        }
        let (kind, stage, root) = (from.kind, from.stage, from.root);
        let transpose = (from.shape == shape).then(|| from.transpose.clone()).flatten();
        Ok(self.value(Value { shape, kind, stage, data: None, root, transpose }))
    }

    /// Adds a step with `kernel` and operands `reads`. Returns its output.
    pub(super) fn step(&mut self, kernel: Kernel, reads: &[Id], kind: Kind, shape: Vec<usize>) -> Result<Id, Refusal> {
        let stage = reads.iter().map(|read| self.stage(*read)).max().unwrap_or(Stage::Constant);
        if stage == Stage::Constant {
            let mut out = Data::zeros(kind, len(&shape));
            let slices: Vec<Slice<'_>> =
                reads.iter().map(|read| self.data(*read).expect("a constant has its elements").slice()).collect();
            let call = Call { kernel: &kernel, reads: &slices, out: out.slice_mut() };
            Arch::new().dispatch(call).map_err(|error| error.to_string())?;
            return Ok(self.constant(shape, out));
        }
        let write = self.input(shape, kind, stage);
        self.steps.push(Written { node: self.node.clone(), kernel, reads: reads.to_vec(), write });
        Ok(write)
    }

    /// Transposes `id` by the permutation `perm`.
    pub(super) fn transpose(&mut self, id: Id, perm: &[usize]) -> Result<Id, Refusal> {
        let from = self.shape(id).to_vec();
        let shape: Vec<usize> = perm.iter().map(|axis| from[*axis]).collect();
        let is_moved = |axis: &&usize| from[**axis] != 1;
        if perm.iter().filter(is_moved).is_sorted() {
            return self.alias(id, shape);
        }
        let strides = strides(&from);
        let turned: Vec<isize> = perm.iter().map(|axis| strides[*axis] as isize).collect();
        let walk = Walk::new(&shape, [&turned], [0]).ok_or(TOO_MANY_AXES)?;
        let made = self.step(Kernel::Copy(walk), &[id], self.kind(id), shape)?;
        self.values[made].transpose = Some((id, perm.to_vec()));
        Ok(made)
    }

    /// Memory and strides of `id`. For a per-sample transpose this is the source, so a product reads through the
    /// transpose without a copy. In the small form this applies to every transpose.
    pub(super) fn strided(&self, id: Id) -> (Id, Vec<usize>) {
        match &self.values[id].transpose {
            Some((from, perm)) if self.stage(id) == Stage::Sample || self.form == ProgramForm::Small => {
                let strides = strides(self.shape(*from));
                (*from, perm.iter().map(|axis| strides[*axis]).collect())
            }
            _ => (id, strides(self.shape(id))),
        }
    }
}

/// Number of elements of a shape.
pub(super) fn len(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// Row-major strides.
pub(super) fn strides(shape: &[usize]) -> Vec<usize> {
    (0..shape.len()).map(|axis| len(&shape[axis + 1..])).collect()
}

/// Shape that results from broadcasting `shapes`.
pub(super) fn broadcast(shapes: &[&[usize]]) -> Result<Vec<usize>, Refusal> {
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut whole = vec![1; rank];
    for shape in shapes {
        let lead = rank - shape.len();
        for (extent, whole) in shape.iter().zip(&mut whole[lead..]) {
            match (*extent, *whole) {
                (1, _) => {}
                (extent, 1) => *whole = extent,
                (extent, other) if extent == other => {}
                _ => return Err(format!("the shapes {shapes:?} do not fit together")),
            }
        }
    }
    Ok(whole)
}
