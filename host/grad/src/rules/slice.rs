//! `Slice`: `Y` = strided slice of `X` along axes ⇒ `dX` = `dY` at the positions of the slice, 0 elsewhere.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::lookup::scatter;

pub const RULE: GradRule = GradRule { op: "Slice", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, y) = (p.x(0), p.y());
    let mut gx = p.gy();
    let lists = [1, 3, 4].map(|i| p.constant_ints(i));
    let [Some(starts), Some(axes), Some(steps)] = lists else {
        return Err(p.refuse("its bounds are not constants", "slice with constant bounds"));
    };
    for ((start, axis), step) in starts.into_iter().zip(axes).zip(steps) {
        let axis = axis as usize;
        let indices: Vec<usize> = (0..y.shape[axis] as i64).map(|k| (start + k * step) as usize).collect();
        gx = scatter(p.em, &gx, axis + p.shift(), &indices, x.shape[axis]);
    }
    p.gx(0, gx);
    Ok(())
}
