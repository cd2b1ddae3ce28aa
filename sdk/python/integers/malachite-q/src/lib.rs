//! The parts of the crate malachite-q that RustPython uses: the division of integers that rounds correctly, and the
//! fraction that a float is. See `../../README.md`.

use std::cmp::Ordering;

use malachite_base::num::conversion::traits::RoundingInto;
use malachite_base::rounding_modes::RoundingMode;
use num_bigint::{BigInt, BigUint};
use num_integer::Integer;
use num_traits::{ToPrimitive, Zero};

/// The exponent of the smallest float above 0.
const EXPONENT_MIN: i64 = -1074;
/// Bits of a float with its implicit one.
const FLOAT_BITS: i64 = 53;
/// Bits of the fraction of a float.
const FRACTION_BITS: u32 = 52;

/// A fraction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rational {
    is_negative: bool,
    numerator: BigUint,
    denominator: BigUint,
}

impl Rational {
    /// A quotient. The denominator is not 0.
    pub fn from_integers_ref(numerator: &BigInt, denominator: &BigInt) -> Self {
        let is_negative = (numerator.sign() == num_bigint::Sign::Minus)
            != (denominator.sign() == num_bigint::Sign::Minus);
        let (numerator, denominator) = (numerator.magnitude(), denominator.magnitude());
        Self { is_negative, numerator: numerator.clone(), denominator: denominator.clone() }
    }

    /// Numerator and denominator without the sign.
    pub fn into_numerator_and_denominator(self) -> (BigUint, BigUint) {
        (self.numerator, self.denominator)
    }
}

impl TryFrom<f64> for Rational {
    type Error = ();

    /// The fraction that a float is, in lowest terms. Infinity and NaN are none.
    fn try_from(value: f64) -> Result<Self, ()> {
        if !value.is_finite() {
            return Err(());
        }
        let bits = value.to_bits();
        let fraction = bits & ((1 << FRACTION_BITS) - 1);
        let exponent = (bits >> FRACTION_BITS & 0x7ff) as i64;
        // Subnormal numbers have no implicit bit.
        let (fraction, exponent) = match exponent {
            0 => (fraction, EXPONENT_MIN),
            exponent => (fraction | 1 << FRACTION_BITS, exponent - 1 + EXPONENT_MIN),
        };
        let zeros = i64::from(fraction.trailing_zeros()).min((-exponent).max(0));
        let (fraction, exponent) = match fraction {
            0 => (0, 0),
            fraction => (fraction >> zeros, exponent + zeros),
        };
        let shift = |by: i64| BigUint::from(1_u8) << usize::try_from(by).unwrap_or(0);
        Ok(Self {
            is_negative: value.is_sign_negative(),
            numerator: BigUint::from(fraction) * shift(exponent),
            denominator: shift(-exponent),
        })
    }
}

impl RoundingInto<f64> for Rational {
    /// The nearest float; infinity above the largest one.
    fn rounding_into(self, _nearest: RoundingMode) -> (f64, Ordering) {
        let magnitude = nearest(&self.numerator, &self.denominator);
        (if self.is_negative { -magnitude } else { magnitude }, Ordering::Equal)
    }
}

fn nearest(numerator: &BigUint, denominator: &BigUint) -> f64 {
    if numerator.is_zero() {
        return 0.0;
    }
    let bits = |number: &BigUint| i64::try_from(number.bits()).unwrap_or(i64::MAX);
    let exponent = bits(numerator).saturating_sub(bits(denominator));
    if exponent > 1025 {
        return f64::INFINITY;
    }
    if exponent < EXPONENT_MIN - 1 {
        return 0.0;
    }
    // The value of the last bit of the float: a subnormal number has fewer bits.
    let mut unit = (exponent - FLOAT_BITS).max(EXPONENT_MIN);
    let (mut quotient, mut rest, mut divisor) = divide(numerator, denominator, unit);
    if bits(&quotient) > FLOAT_BITS {
        unit += 1;
        (quotient, rest, divisor) = divide(numerator, denominator, unit);
    }
    let is_above = match (rest << 1_u32).cmp(&divisor) {
        Ordering::Less => false,
        Ordering::Equal => quotient.is_odd(),
        Ordering::Greater => true,
    };
    let quotient = quotient.to_u64().unwrap_or(u64::MAX) + u64::from(is_above);
    scale(quotient as f64, unit)
}

/// Quotient and rest in units of a power of two, with the divisor that the rest belongs to.
fn divide(numerator: &BigUint, denominator: &BigUint, unit: i64) -> (BigUint, BigUint, BigUint) {
    let shift = |number: &BigUint, by: i64| number << usize::try_from(by).unwrap_or(0);
    let divisor = shift(denominator, unit);
    let (quotient, rest) = shift(numerator, -unit).div_rem(&divisor);
    (quotient, rest, divisor)
}

/// A float times a power of two. It is exact: the float has no more bits than the product can have.
fn scale(value: f64, exponent: i64) -> f64 {
    let half = exponent / 2;
    let power = |by: i64| 2_f64.powi(i32::try_from(by).unwrap_or(0));
    value * power(half) * power(exponent - half)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(numerator: i128, denominator: i128) -> f64 {
        let (numerator, denominator) = (BigInt::from(numerator), BigInt::from(denominator));
        let quotient = Rational::from_integers_ref(&numerator, &denominator);
        quotient.rounding_into(RoundingMode::Nearest).0
    }

    #[test]
    fn a_quotient_is_rounded_as_the_processor_does() {
        for (a, b) in [(1, 3), (-2, 3), (10, 4), (1 << 53, 3), ((1 << 53) - 1, 7), (0, 5), (7, -1)]
        {
            assert_eq!(divided(a, b), a as f64 / b as f64, "{a}/{b}");
        }
        // Halfway between two floats: to the even one.
        assert_eq!(divided((1 << 53) + 1, 1), (1_u64 << 53) as f64);
        assert_eq!(divided((1 << 53) + 3, 1), ((1_u64 << 53) + 4) as f64);
        assert_eq!(divided((1 << 54) + 3, 2), ((1_u64 << 53) + 2) as f64);
    }

    #[test]
    fn the_ends_of_the_range_are_reached() {
        let power = |by: usize| BigInt::from(1) << by;
        let of = |a: &BigInt, b: &BigInt| {
            Rational::from_integers_ref(a, b).rounding_into(RoundingMode::Nearest).0
        };
        assert_eq!(of(&power(1), &power(1075)), f64::from_bits(1));
        assert_eq!(of(&power(0), &power(1075)), 0.0);
        assert_eq!(of(&BigInt::from(3), &power(1076)), f64::from_bits(1));
        assert_eq!(of(&BigInt::from(3), &power(1075)), f64::from_bits(2));
        assert_eq!(of(&(power(53) - 1), &power(1075)), f64::MIN_POSITIVE);
        assert_eq!(of(&power(1024), &power(0)), f64::INFINITY);
        assert_eq!(of(&(power(1024) - power(970)), &power(0)), f64::INFINITY);
        assert_eq!(of(&(power(1024) - power(971)), &power(0)), f64::MAX);
        assert_eq!(of(&power(0), &power(1022)), f64::MIN_POSITIVE);
    }

    #[test]
    fn a_float_is_a_fraction() {
        for (value, numerator, denominator) in
            [(0.0, 0_u64, 1_u64), (0.5, 1, 2), (6.0, 6, 1), (-0.75, 3, 4)]
        {
            let fraction = Rational::try_from(value).unwrap();
            let (a, b) = fraction.into_numerator_and_denominator();
            assert_eq!((a, b), (numerator.into(), denominator.into()), "{value}");
        }
        assert!(Rational::try_from(f64::NAN).is_err());
        let smallest = Rational::try_from(f64::from_bits(1)).unwrap();
        assert_eq!(smallest.denominator, BigUint::from(1_u8) << 1074_u32);
        let largest = Rational::try_from(f64::MAX).unwrap();
        assert_eq!(largest.rounding_into(RoundingMode::Nearest).0, f64::MAX);
    }
}
