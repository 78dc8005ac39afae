//! Source of the kernels. It is compiled for a card at run time, and as C++ for tests.

/// Kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CudaKernel {
    /// Sums of squares in the lanes.
    NormLanes,
    /// Totals of blocks.
    NormTotals,
    /// Norms.
    NormSums,
    /// First scales.
    ScaleFirst,
    /// Next scales of segments above their bound.
    ScaleNext,
    /// Adds rows to the sum.
    AddRows,
    /// Fingerprints of rows.
    Fingerprint,
    /// Adds the noise, wipes the sum and writes the released mean.
    ReleaseChunks,
    /// Recursive filter.
    FilterIir,
    /// DiSK's filter.
    FilterKalman,
    /// Parameters before an update, and their change after it.
    KeepMove,
    /// Look-ahead point.
    PointAhead,
    /// SGD.
    UpdateSgd,
    /// Adam and DP-AdamBC.
    UpdateAdam,
    /// RMSprop and AdaGrad.
    UpdateScaled,
    /// Mean of the parameters.
    AverageParams,
}

impl CudaKernel {
    /// All kernels.
    pub const ALL: [Self; 16] = [
        Self::NormLanes,
        Self::NormTotals,
        Self::NormSums,
        Self::ScaleFirst,
        Self::ScaleNext,
        Self::AddRows,
        Self::Fingerprint,
        Self::ReleaseChunks,
        Self::FilterIir,
        Self::FilterKalman,
        Self::KeepMove,
        Self::PointAhead,
        Self::UpdateSgd,
        Self::UpdateAdam,
        Self::UpdateScaled,
        Self::AverageParams,
    ];

    /// Name in the source.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NormLanes => "norm_lanes",
            Self::NormTotals => "norm_totals",
            Self::NormSums => "norm_sums",
            Self::ScaleFirst => "scale_first",
            Self::ScaleNext => "scale_next",
            Self::AddRows => "add_rows",
            Self::Fingerprint => "fingerprint",
            Self::ReleaseChunks => "release_chunks",
            Self::FilterIir => "filter_iir",
            Self::FilterKalman => "filter_kalman",
            Self::KeepMove => "keep_move",
            Self::PointAhead => "point_ahead",
            Self::UpdateSgd => "update_sgd",
            Self::UpdateAdam => "update_adam",
            Self::UpdateScaled => "update_scaled",
            Self::AverageParams => "average_params",
        }
    }
}

/// Definitions for the kernels, for the compiler of a card.
const CUDA: (&str, &str) = ("cuda.h", include_str!("../kernels/cuda.h"));
/// The same for a C++ compiler, and the entry point for kernel calls.
const EMULATED: (&str, &str) = ("emulated.h", include_str!("../kernels/emulated.h"));
const ENTRY: (&str, &str) = ("entry.h", include_str!("../kernels/entry.h"));
/// Kernel files. Each file only uses files before it.
const FILES: [(&str, &str); 11] = [
    ("gaussian_table.h", include_str!("../kernels/gaussian_table.h")),
    ("layout.h", include_str!("../kernels/layout.h")),
    ("norm.cu", include_str!("../kernels/norm.cu")),
    ("scale.cu", include_str!("../kernels/scale.cu")),
    ("add.cu", include_str!("../kernels/add.cu")),
    ("fingerprint.cu", include_str!("../kernels/fingerprint.cu")),
    ("chacha.cu", include_str!("../kernels/chacha.cu")),
    ("gaussian.cu", include_str!("../kernels/gaussian.cu")),
    ("release.cu", include_str!("../kernels/release.cu")),
    ("filter.cu", include_str!("../kernels/filter.cu")),
    ("optimizer.cu", include_str!("../kernels/optimizer.cu")),
];

/// Source for NVRTC: a single text without includes.
#[must_use]
pub fn cuda_source() -> String {
    joined(std::iter::once(CUDA).chain(FILES))
}

/// Source for a C++ compiler (C++17), with `damper_emulate`, which calls a kernel thread by thread. Contraction of
/// products and sums must be off.
#[must_use]
pub fn emulated_source() -> String {
    joined(std::iter::once(EMULATED).chain(FILES).chain([ENTRY]))
}

fn joined(files: impl Iterator<Item = (&'static str, &'static str)>) -> String {
    // `#line` makes messages name the file.
    files.map(|(name, text)| format!("#line 1 \"{name}\"\n{text}")).collect()
}
