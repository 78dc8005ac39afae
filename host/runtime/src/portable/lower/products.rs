//! Matrix products.

use super::super::builder::{Builder, Id, Refusal, TOO_MANY_AXES, broadcast, strides};
use super::super::kernel::Kernel;
use super::super::node::Node;
use super::super::value::{Data, Kind};
use super::elementwise::pair;
use damper_nn::Walk;
use damper_nn::elementwise::Binary;
use damper_nn::product::Product;

pub(super) fn mat_mul(b: &mut Builder, node: &Node<'_>) -> Result<Id, Refusal> {
    product(b, node.input(0)?, node.input(1)?)
}

pub(super) fn gemm(b: &mut Builder, node: &Node<'_>) -> Result<Id, Refusal> {
    let (mut x, mut y) = (node.input(0)?, node.input(1)?);
    if [x, y].iter().any(|id| b.shape(*id).len() != 2) {
        return Err("its operands are not matrices".into());
    }
    for (operand, name) in [(&mut x, "transA"), (&mut y, "transB")] {
        if node.int(name, 0) != 0 {
            *operand = b.transpose(*operand, &[1, 0])?;
        }
    }
    let whole = product(b, x, y)?;
    let scaled = scaled(b, whole, node.float("alpha", 1.0))?;
    match node.optional(2) {
        None => Ok(scaled),
        Some(bias) => {
            let bias = self::scaled(b, bias, node.float("beta", 1.0))?;
            pair(b, scaled, bias, Kind::F32, |walk| Kernel::Binary(Binary::Add, walk))
        }
    }
}

fn scaled(b: &mut Builder, x: Id, factor: f32) -> Result<Id, Refusal> {
    if factor == 1.0 {
        return Ok(x);
    }
    let factor = b.constant(vec![], Data::F32(vec![factor]));
    pair(b, x, factor, Kind::F32, |walk| Kernel::Binary(Binary::Mul, walk))
}

/// Matrix product over the last two axes, with the others broadcast. A vector is a row on the left and a column on the
/// right.
fn product(b: &mut Builder, x: Id, y: Id) -> Result<Id, Refusal> {
    if [x, y].iter().any(|id| b.kind(*id) != Kind::F32 || b.shape(*id).is_empty()) {
        return Err("its operands are not matrices of floats".into());
    }
    // Reads through transposes. The strides are those of the operand's axes.
    let ((x_read, mut x_strides), (y_read, mut y_strides)) = (b.strided(x), b.strided(y));
    let (mut x_shape, mut y_shape) = (b.shape(x).to_vec(), b.shape(y).to_vec());
    let (is_row, is_column) = (x_shape.len() == 1, y_shape.len() == 1);
    if is_row {
        (x_shape, x_strides) = (vec![1, x_shape[0]], vec![0, x_strides[0]]);
    }
    if is_column {
        (y_shape, y_strides) = (vec![y_shape[0], 1], vec![y_strides[0], 0]);
    }
    let (x_lead, y_lead) = (x_shape.len() - 2, y_shape.len() - 2);
    let [rows, terms] = x_shape[x_lead..] else { unreachable!("two axes are left") };
    let [other, columns] = y_shape[y_lead..] else { unreachable!("two axes are left") };
    if terms != other {
        return Err(format!("the matrices {x_shape:?} and {y_shape:?} do not fit together"));
    }
    let mut shape = broadcast(&[&x_shape[..x_lead], &y_shape[..y_lead]])?;
    let stack_strides = |extents: &[usize], strides: &[usize]| -> Vec<isize> {
        let lead = shape.len() - extents.len();
        let of = |(extent, stride): (&usize, &usize)| if *extent == 1 { 0 } else { *stride as isize };
        std::iter::repeat_n(0, lead).chain(extents.iter().zip(strides).map(of)).collect()
    };
    let x_stack = stack_strides(&x_shape[..x_lead], &x_strides);
    let y_stack = stack_strides(&y_shape[..y_lead], &y_strides);
    let matrix = |strides: &[usize], lead: usize| [strides[lead], strides[lead + 1]];
    let (mut x_matrix, y_matrix) = (matrix(&x_strides, x_lead), matrix(&y_strides, y_lead));
    // If the rows of a stack are contiguous and share the right side, they form one matrix.
    let (mut rows, mut count) = (rows, shape.iter().product::<usize>());
    let is_one =
        y_stack.iter().all(|stride| *stride == 0) && x_strides == strides(&x_shape) && x_shape[..x_lead] == shape[..];
    if is_one && count != 1 {
        (rows, count) = (rows * count, 1);
        x_matrix = [terms, 1];
    }
    let stack = match count {
        1 => Walk::new(&[], [&[], &[]], [0, 0]),
        _ => Walk::new(&shape, [&x_stack, &y_stack], [0, 0]),
    };
    let kernel = Product::new([rows, columns, terms], x_matrix, y_matrix, stack.ok_or(TOO_MANY_AXES)?);
    if !is_row {
        shape.push(x_shape[x_lead]);
    }
    if !is_column {
        shape.push(columns);
    }
    b.step(Kernel::Product(kernel.ok_or("its sizes overflow")?), &[x_read, y_read], Kind::F32, shape)
}
