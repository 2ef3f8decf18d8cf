//! Elementary functions of `f64`, by the platform's mathematics library and `libm`.

/// `e^x`; at most 1 ulp from the exact value.
pub(crate) fn exp(x: f64) -> f64 {
    x.exp()
}

/// `e^x - 1`; at most 1 ulp from the exact value.
pub(crate) fn expm1(x: f64) -> f64 {
    x.exp_m1()
}

/// `ln x`; at most 1 ulp from the exact value.
pub(crate) fn log(x: f64) -> f64 {
    x.ln()
}

/// `ln(1 + x)`; at most 1 ulp from the exact value.
pub(crate) fn log1p(x: f64) -> f64 {
    x.ln_1p()
}

/// Hyperbolic tangent; at most 2 ulp from the exact value.
pub(crate) fn tanh(x: f64) -> f64 {
    x.tanh()
}

/// `1 / (1 + e^-x)`; at most 2 ulp from the exact value.
pub(crate) fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Sine; at most 1 ulp from the exact value.
pub(crate) fn sin(x: f64) -> f64 {
    x.sin()
}

/// Cosine; at most 1 ulp from the exact value.
pub(crate) fn cos(x: f64) -> f64 {
    x.cos()
}

/// Tangent; at most 1 ulp from the exact value.
pub(crate) fn tan(x: f64) -> f64 {
    x.tan()
}

/// Error function; at most 1 ulp from the exact value.
pub(crate) fn erf(x: f64) -> f64 {
    libm::erf(x)
}

/// Cube root; at most 1 ulp from the exact value.
pub(crate) fn cbrt(x: f64) -> f64 {
    x.cbrt()
}

/// `x^y` as C's `pow`; at most 1 ulp from the exact value.
pub(crate) fn pow(x: f64, y: f64) -> f64 {
    x.powf(y)
}

/// Angle of the point (`x`, `y`) as C's `atan2`; at most 1 ulp from the exact value.
pub(crate) fn atan2(y: f64, x: f64) -> f64 {
    y.atan2(x)
}
