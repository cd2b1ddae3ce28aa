//! The parts of the crate malachite-base that RustPython uses. See `../../README.md`.

/// Numbers.
pub mod num {
    /// Properties of types.
    pub mod basic {
        /// Floats.
        pub mod floats {
            /// A float.
            pub trait PrimitiveFloat {
                /// Whether it is -0.0.
                fn is_negative_zero(self) -> bool;
            }

            impl PrimitiveFloat for f64 {
                fn is_negative_zero(self) -> bool {
                    self == 0.0 && self.is_sign_negative()
                }
            }
        }
    }

    /// Conversions.
    pub mod conversion {
        /// Traits.
        pub mod traits {
            use std::cmp::Ordering;

            use crate::rounding_modes::RoundingMode;

            /// A conversion that rounds.
            pub trait RoundingInto<T> {
                /// The rounded value, and how it compares with the exact one.
                fn rounding_into(self, mode: RoundingMode) -> (T, Ordering);
            }
        }
    }
}

/// How to round.
pub mod rounding_modes {
    /// How to round.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum RoundingMode {
        /// To the nearest value; to the even one if two are equally near.
        Nearest,
    }
}
