// exp and log in double with the same bits on every machine: only IEEE additions, products and
// divisions in a fixed order, never contracted (this room is built with -ffp-contract=off), and
// moves of bits. The C library's functions differ between versions; these do not.
//
// Error, derived below and measured against long double (math_test.cpp): less than 1 ulp of the
// result; where exp's result is subnormal, less than 1 of its (fixed) units.
#pragma once

namespace lockstep::engine {

// e^x: 0 below about -745.13, +inf above about 709.78, NaN for NaN; exactly 1 at 0.
double portable_exp(double x);
// Natural logarithm: exactly 0 at 1, -inf at 0, NaN below 0, +inf at +inf. Subnormals are taken.
double portable_log(double x);

}  // namespace lockstep::engine
