//! One of the two factors of a gradient, in its original layout.

use crate::emit::{BATCH_FIRST, Emitter, Var};
use crate::window::SlidingWindow;
use damper_onnx::graph::DType;
use damper_onnx::{make_attr_int, make_attr_string};

/// First opset in which `ScatterElements` supports addition.
const SCATTER_ADDS: i64 = 16;

/// One of the two factors.
#[derive(Clone, PartialEq, Debug)]
pub struct FactorSide {
    pub var: Var,
    layout: Layout,
}

#[derive(Clone, PartialEq, Debug)]
enum Layout {
    /// `[N, T, r]` or `[N, T, g, r]`.
    PositionsFirst,
    /// `[N, r, T]` or `[N, g, r, T]`.
    PositionsLast,
    /// int64 `[N, T]`. Position `t` is the unit vector of `r` entries (given here) that is 1 at the index.
    Indices(usize),
    /// `[N, C, *input]`. Position `t` is the patch under a window, unfolded only at its use. Each group of channels has
    /// its own part of the patch.
    Patches { window: SlidingWindow, by_conv: bool, groups: usize },
}

impl FactorSide {
    /// Factor with the layout `[N, T, (g,) r]`.
    pub fn positions_first(var: Var) -> Self {
        Self { var, layout: Layout::PositionsFirst }
    }

    /// Factor with the layout `[N, (g,) r, T]`.
    pub fn positions_last(var: Var) -> Self {
        Self { var, layout: Layout::PositionsLast }
    }

    /// Patches of `x: [N, C, *input]` under `window`, with `C·taps` entries each. They are in the order of the channels
    /// if a convolution unfolds them, else in the order of the taps.
    pub fn patches(x: Var, window: SlidingWindow, by_conv: bool) -> Self {
        Self { var: x, layout: Layout::Patches { window, by_conv, groups: 1 } }
    }

    /// Patches of `x: [N, C, *input]` under `window`, with a group axis and `C/groups·taps` entries for each group. A
    /// convolution unfolds them.
    pub fn grouped_patches(x: Var, window: SlidingWindow, groups: usize) -> Self {
        Self { var: x, layout: Layout::Patches { window, by_conv: true, groups } }
    }

    /// Unit vectors of `extent` entries, given by index: int64 `[N, T]`, from 0 and below `extent`.
    ///
    /// They stay indices, except in opsets that cannot add at indices. `like` is the element type of the other factor.
    pub fn indices(em: &mut Emitter, indices: &Var, extent: usize, like: DType) -> Self {
        if em.opset >= SCATTER_ADDS {
            return Self { var: indices.clone(), layout: Layout::Indices(extent) };
        }
        let column = em.per_sample(indices, &[indices.shape[1], 1]);
        let numbers = em.ints(&(0..extent as i64).collect::<Vec<_>>());
        let is_one = em.compare("Equal", &column, &numbers);
        Self::positions_first(em.cast(&is_one, like))
    }

    /// Number of positions, `T`.
    pub fn positions(&self) -> usize {
        match &self.layout {
            Layout::PositionsLast => self.var.shape[self.var.rank() - 1],
            Layout::PositionsFirst | Layout::Indices(_) => self.var.shape[1],
            Layout::Patches { window, .. } => window.positions(),
        }
    }

    /// Number of groups, if there is a group axis.
    pub fn groups(&self) -> Option<usize> {
        match self.layout {
            Layout::PositionsFirst => (self.var.rank() == 4).then(|| self.var.shape[2]),
            Layout::PositionsLast => (self.var.rank() == 4).then(|| self.var.shape[1]),
            Layout::Patches { groups, .. } => (groups > 1).then_some(groups),
            Layout::Indices(_) => None,
        }
    }

    /// Number of entries of one position's vector, `r`.
    pub fn extent(&self) -> usize {
        match &self.layout {
            Layout::PositionsFirst => self.var.shape[self.var.rank() - 1],
            Layout::PositionsLast => self.var.shape[self.var.rank() - 2],
            Layout::Indices(extent) => *extent,
            Layout::Patches { window, groups, .. } => self.var.shape[1] / groups * window.taps(),
        }
    }

    /// Returns true if the factor is stored as indices.
    pub fn is_indices(&self) -> bool {
        matches!(self.layout, Layout::Indices(_))
    }

    /// Returns true if the layout is `[N, (g,) r, T]`, or unfolds to it.
    pub fn has_positions_last(&self) -> bool {
        matches!(self.layout, Layout::PositionsLast | Layout::Patches { by_conv: true, .. })
    }

    /// Source of the patches, and the window.
    pub fn window(&self) -> Option<(&Var, &SlidingWindow)> {
        if let Layout::Patches { window, .. } = &self.layout { Some((&self.var, window)) } else { None }
    }

    /// The same factor with unfolded patches.
    pub fn unfolded(&self, em: &mut Emitter) -> Self {
        let Layout::Patches { window, by_conv, groups } = &self.layout else { return self.clone() };
        if *by_conv {
            let patches = if window.is_pointwise() { self.var.clone() } else { window.unfold_by_conv(em, &self.var) };
            let groups: &[usize] = if *groups == 1 { &[] } else { &[*groups] };
            return Self::positions_last(
                em.per_sample(&patches, &[groups, &[self.extent(), window.positions()]].concat()),
            );
        }
        Self::positions_first(window.unfold_by_gather(em, &self.var))
    }

    /// The same factor with values mapped by `map`, which must be linear and keep the shape.
    pub fn map(&self, map: impl FnOnce(&Var) -> Var) -> Self {
        Self { var: map(&self.var), layout: self.layout.clone() }
    }

    /// Concatenates the positions of several factors of the same kind.
    pub fn concat(em: &mut Emitter, sides: &[&Self]) -> Self {
        debug_assert!(sides.iter().all(|s| s.is_indices() == sides[0].is_indices()));
        let sides: Vec<Self> = sides.iter().map(|side| side.unfolded(em)).collect();
        let layout = sides[0].layout.clone();
        if sides.iter().all(|s| s.layout == layout) {
            let axis = if layout == Layout::PositionsLast { sides[0].var.rank() - 1 } else { 1 };
            let vars: Vec<&Var> = sides.iter().map(|s| &s.var).collect();
            return Self { var: em.concat(&vars, axis), layout };
        }
        let vars: Vec<Var> = sides.iter().map(|s| s.with_positions_first(em)).collect();
        Self::positions_first(em.concat(&vars.iter().collect::<Vec<_>>(), 1))
    }

    /// Factor as `[N, (g,) r, T]`.
    pub fn with_positions_last(&self, em: &mut Emitter) -> Var {
        let side = self.unfolded(em);
        match (&side.layout, side.groups()) {
            (Layout::PositionsLast, _) => side.var,
            (_, None) => em.transpose(&side.var, &[0, 2, 1]),
            (_, Some(_)) => em.transpose(&side.var, &[0, 2, 3, 1]),
        }
    }

    /// Factor as `[N, (g,) T, r]`, the right operand of a matrix product over the positions.
    pub fn with_positions_inside(&self, em: &mut Emitter) -> Var {
        let side = self.unfolded(em);
        match (&side.layout, side.groups()) {
            (Layout::PositionsLast, _) => em.transpose_last(&side.var),
            (_, None) => side.var,
            (_, Some(_)) => em.transpose(&side.var, &[0, 2, 1, 3]),
        }
    }

    /// Factor as `[N, T, (g,) r]`.
    pub fn with_positions_first(&self, em: &mut Emitter) -> Var {
        let side = self.unfolded(em);
        match (&side.layout, side.groups()) {
            (Layout::PositionsLast, None) => em.transpose(&side.var, &[0, 2, 1]),
            (Layout::PositionsLast, Some(_)) => em.transpose(&side.var, &[0, 3, 1, 2]),
            _ => side.var,
        }
    }

    /// Indices for `ScatterElements` and `GatherElements`: int64 `[N, T, width]`, or `[N, width, T]` with
    /// `positions_last`.
    pub fn spread_indices(&self, em: &mut Emitter, width: usize, positions_last: bool) -> Var {
        let positions = self.positions();
        let (thin, full) = if positions_last {
            ([1, positions], [1, width, positions])
        } else {
            ([positions, 1], [1, positions, width])
        };
        let thin = em.per_sample(&self.var, &thin);
        em.spread(&thin, &full, Some(BATCH_FIRST))
    }
}

/// Adds `updates` to `onto` at `indices` (of the updates' shape) along `axis`. Repeated indices are added in order.
pub fn scatter_add(em: &mut Emitter, onto: &Var, indices: &Var, updates: &Var, axis: usize) -> Var {
    let attributes = vec![make_attr_int("axis", axis as i64), make_attr_string("reduction", "add")];
    em.node("ScatterElements", &[onto, indices, updates], attributes, onto.dtype, onto.shape.clone(), onto.batch)
}
