//! Kernels: the parts of a step, compared value by value.

use super::compared::Compared;
use super::error::PackError;
use super::grammar::MOST_LAYERS;
use super::memory::{Memory, MemoryPart};
use super::pack::Reader;
use super::slots::{Floats, recorded};
use super::tracker;
use core::num::NonZeroUsize;
use damper_core::accounting::Rate;
use damper_core::clip::Layer;
use damper_core::count::Query;
use damper_core::grid::Grid;
use damper_core::noise::{Address, ChaCha20, ContinuousGaussian, DiscreteGaussian, Generator, Purpose, Xoshiro};
use damper_core::numerics::basis::{Basis, Side};
use damper_core::numerics::function;
use damper_core::numerics::reduce::sum_of_squares;
use damper_core::sampling::poisson;
use rand_core::Rng;

/// Most samples of a draw. The limit bounds the work of a modified pack.
const MOST_SAMPLES: u32 = 1 << 16;

/// Plays the kernel of this kind.
#[inline(never)]
pub(super) fn play<const ALL: bool>(
    kind: u8,
    pack: &mut Reader<'_>,
    memory: &mut Memory<'_>,
) -> Result<Compared, PackError> {
    match kind {
        1 => {
            let (generator, address) = address(pack)?;
            words(pack, generator.stream(address))
        }
        2 => noise(pack),
        3 => coins(pack),
        4 => squares(pack, memory),
        5 => functions(pack),
        6 => clipped(pack, memory),
        7 => bins(pack),
        8 => continuous(pack),
        9 if ALL => {
            let (seed, address) = place(pack)?;
            words(pack, Xoshiro::simulation(seed).stream(address))
        }
        10 if ALL => coordinates(pack, memory),
        11 if ALL => tracker::ledger(pack),
        12 if ALL => tracker::filter(pack),
        _ => Err(PackError::Field("kind of group")),
    }
}

fn address(pack: &mut Reader<'_>) -> Result<(ChaCha20, Address), PackError> {
    let (seed, address) = place(pack)?;
    Ok((ChaCha20::simulation(seed), address))
}

#[inline(never)]
fn place(pack: &mut Reader<'_>) -> Result<(u64, Address), PackError> {
    let seed = pack.u64();
    let purpose = match pack.u8() {
        1 => Purpose::GradientNoise,
        2 => Purpose::HistogramNoise,
        3 => Purpose::Sampling,
        4 => Purpose::Initialisation,
        5 => Purpose::Augmentation,
        _ => return Err(PackError::Field("purpose of random words")),
    };
    Ok((seed, Address { purpose, step: pack.u32(), chunk: pack.u32() }))
}

fn words(pack: &mut Reader<'_>, mut stream: impl Rng) -> Result<Compared, PackError> {
    let mut compared = Compared::default();
    for _ in 0..pack.u16() {
        compared.value(u64::from(stream.next_u32()), u64::from(pack.u32()));
    }
    Ok(compared)
}

/// Discrete Gaussian noise.
fn noise(pack: &mut Reader<'_>) -> Result<Compared, PackError> {
    let (generator, address) = address(pack)?;
    let mut stream = generator.stream(address);
    let mechanism = DiscreteGaussian::<i64>::new(Grid::new(8)?, pack.u32())?;
    let mut compared = Compared::default();
    for _ in 0..pack.u16() {
        compared.value(mechanism.sample(&mut stream) as u64, pack.u64());
    }
    Ok(compared)
}

/// Continuous Gaussian noise.
fn continuous(pack: &mut Reader<'_>) -> Result<Compared, PackError> {
    let (generator, address) = address(pack)?;
    let mut stream = generator.stream(address);
    let mechanism = ContinuousGaussian::new(pack.f64())?;
    let mut compared = Compared::default();
    for _ in 0..pack.u16() {
        for found in mechanism.sample(&mut stream) {
            compared.float(found, pack.u32());
        }
    }
    Ok(compared)
}

/// Poisson sampling: the samples that a step draws.
fn coins(pack: &mut Reader<'_>) -> Result<Compared, PackError> {
    let (seed, step, rate) = (pack.u64(), pack.u32(), Rate::from_numerator(pack.u64())?);
    let (samples, drawn) = (pack.u32(), pack.u16());
    if samples > MOST_SAMPLES {
        return Err(PackError::Field("samples of a draw"));
    }
    let generator: ChaCha20 = ChaCha20::simulation(seed);
    let mut found = poisson(&generator, step, rate, samples);
    let mut compared = Compared::default();
    for _ in 0..drawn {
        // No sample has the number `u32::MAX`.
        compared.value(u64::from(found.next().unwrap_or(u32::MAX)), u64::from(pack.u32()));
    }
    compared.value(found.fold(0, |more, _| more + 1), 0);
    Ok(compared)
}

/// Lent memory for a gradient with the next length in the pack.
#[inline(never)]
fn grad<'m>(pack: &mut Reader<'_>, memory: &'m mut [f32]) -> Result<&'m mut [f32], PackError> {
    let needed = usize::from(pack.u16());
    let got = memory.len();
    let grad = memory.get_mut(..needed).ok_or(PackError::Memory { of: MemoryPart::Floats, needed, got })?;
    pack.f32s(grad);
    Ok(grad)
}

fn squares(pack: &mut Reader<'_>, memory: &mut Memory<'_>) -> Result<Compared, PackError> {
    let grad = grad(pack, memory.floats)?;
    let mut compared = Compared::default();
    compared.float(sum_of_squares([&*grad].into_iter()), pack.u32());
    Ok(compared)
}

/// Functions of f32 and f64. Each line has one or two arguments, and one or two values.
fn functions(pack: &mut Reader<'_>) -> Result<Compared, PackError> {
    let mut compared = Compared::default();
    let kind = pack.u8();
    for _ in 0..pack.u16() {
        match kind {
            0 => compared.float(function::sqrt_f32(pack.f32()), pack.u32()),
            1 => compared.float(function::ln_f32(pack.f32()), pack.u32()),
            2 => {
                let (sin, cos) = function::sin_cos_f32(pack.f32());
                compared.float(sin, pack.u32());
                compared.float(cos, pack.u32());
            }
            3 => compared.value(function::sqrt_f64(pack.f64()).to_bits(), pack.u64()),
            4 => compared.value(function::exp_f64(pack.f64()).to_bits(), pack.u64()),
            5 => compared.value(function::cos_f64(pack.f64()).to_bits(), pack.u64()),
            6 => compared.value(function::pow_f64(pack.f64(), pack.f64()).to_bits(), pack.u64()),
            7 => compared.float(function::exp_f32(pack.f32()), pack.u32()),
            // Subnormals without flushing: a sum, a product, a quotient, and a conversion to f32.
            8 => compared.float(pack.f32() + pack.f32(), pack.u32()),
            9 => compared.float(pack.f32() * pack.f32(), pack.u32()),
            10 => compared.float(pack.f32() / pack.f32(), pack.u32()),
            11 => compared.float(pack.f64() as f32, pack.u32()),
            _ => return Err(PackError::Field("a function")),
        }
    }
    Ok(compared)
}

/// The integers that a sample adds, then the bits of its norm (`ffffffff` if it is not finite).
fn clipped(pack: &mut Reader<'_>, memory: &mut Memory<'_>) -> Result<Compared, PackError> {
    let mut layers = [Layer { len: 0, share: 0 }; MOST_LAYERS];
    let clip = recorded::clip(pack, &mut layers)?;
    let (grid, threshold) = (Grid::new(u32::from(pack.u8()))?, pack.f32());
    let grad = grad(pack, memory.floats)?;
    let (needed, got) = (grad.len(), memory.wide.len());
    let sum = memory.wide.get_mut(..needed).ok_or(PackError::Memory { of: MemoryPart::Wide, needed, got })?;
    let mut compared = Compared::default();
    let norm = grid.round_sample(&clip, threshold, &[grad], sum, |found| {
        compared.value(found as u64, i64::from(pack.u32() as i32) as u64);
    })?;
    compared.value(u64::from(norm.map_or(u32::MAX, f32::to_bits)), u64::from(pack.u32()));
    Ok(compared)
}

/// Coordinates of a matrix in a few directions, and the matrix that they represent.
fn coordinates(pack: &mut Reader<'_>, memory: &mut Memory<'_>) -> Result<Compared, PackError> {
    let side = if pack.u8() == 0 { Side::Left } else { Side::Right };
    let rank = NonZeroUsize::new(usize::from(pack.u16())).ok_or(PackError::Field("number of directions"))?;
    let [directions, matrix, image] = [pack.u16(), pack.u16(), pack.u16()].map(usize::from);
    let mut floats = Floats(memory.floats);
    let (directions, image) = (floats.take(directions)?, floats.take(image)?);
    let (matrix, lifted) = (floats.take(matrix)?, floats.take(matrix)?);
    pack.f32s(directions);
    pack.f32s(matrix);
    let basis = Basis::new(directions, rank, side)?;
    basis.project(matrix, image)?;
    basis.lift(image, lifted)?;
    let mut compared = Compared::default();
    for found in image.iter().chain(&*lifted) {
        compared.float(*found, pack.u32());
    }
    Ok(compared)
}

/// The bin of each norm, out of at most 20.
fn bins(pack: &mut Reader<'_>) -> Result<Compared, PackError> {
    let query = Query::Histogram { bins: u32::from(pack.u8()), range: pack.f32() };
    if !(1..=20).contains(&query.len()) {
        return Err(PackError::Field("number of bins"));
    }
    let mut compared = Compared::default();
    for _ in 0..pack.u16() {
        let mut counts = [0; 20];
        query.count(pack.f32(), &mut counts);
        let found = counts.iter().position(|count| *count == 1).unwrap_or(counts.len());
        compared.value(found as u64, u64::from(pack.u8()));
    }
    Ok(compared)
}
